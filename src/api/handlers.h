// The handlers of all routes. routes.cpp maps routes to them.
#pragma once

#include "api/route.h"

namespace rubato::api {

// --- job_handlers.cpp
Reply submit_job(const Call& call);
Reply list_jobs(const Call& call);
Reply cancel_jobs(const Call& call);
Reply get_job(const Call& call);
Reply cancel_job(const Call& call);
Reply remove_job(const Call& call);
Reply pause_job(const Call& call);
Reply resume_job(const Call& call);
Reply scale_job(const Call& call);
Reply change_fields(const Call& call);
Reply job_profile(const Call& call);
Reply explain_job(const Call& call);
Reply job_outlook(const Call& call);
Reply plan_job(const Call& call);

// --- stream_handlers.cpp
Reply job_logs(const Call& call);
Reply job_events(const Call& call);
Reply all_events(const Call& call);

// --- series_handlers.cpp
Reply get_series(const Call& call);
Reply job_series(const Call& call);
Reply get_devices(const Call& call);

// --- session_handlers.cpp
Reply log_in(const Call& call);
Reply log_out(const Call& call);
Reply get_session(const Call& call);

// --- page_handlers.cpp
Reply get_page(const Call& call);
Reply get_asset(const Call& call);

// --- file_handlers.cpp
Reply list_files(const Call& call);
Reply get_file(const Call& call);

// --- upload_handlers.cpp
Reply missing_uploads(const Call& call);
Reply put_upload(const Call& call);

// --- usage_handlers.cpp
Reply get_usage(const Call& call);

// --- node_handlers.cpp
Reply list_nodes(const Call& call);
Reply drain_node(const Call& call);
Reply undrain_node(const Call& call);
Reply remove_node(const Call& call);
Reply sync_node(const Call& call);
Reply ask_registry(const Call& call);
Reply list_copy(const Call& call);
Reply get_job_upload(const Call& call);
Reply get_copied(const Call& call);
Reply put_copied(const Call& call);
Reply remove_copied(const Call& call);

// --- cluster_handlers.cpp
Reply get_cluster(const Call& call);
Reply list_policies(const Call& call);
Reply forecast_policy(const Call& call);
Reply note_supply(const Call& call);
Reply use_policy(const Call& call);
Reply list_reservations(const Call& call);
Reply make_reservation(const Call& call);
Reply release_reservation(const Call& call);
Reply list_tenants(const Call& call);
Reply set_tenant(const Call& call);
Reply remove_tenant(const Call& call);
Reply get_snapshot(const Call& call);
Reply get_store(const Call& call);
Reply get_openapi(const Call& call);
Reply get_job_schema(const Call& call);
Reply get_metrics(const Call& call);
Reply get_health(const Call& call);

}  // namespace rubato::api
