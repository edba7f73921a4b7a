#include "api/handlers.h"

namespace rubato::api {

using control::JobNumber;
using control::JobPoint;
using nlohmann::json;

Reply get_series(const Call& call) {
  const auto series = call.controller.series({.from = static_cast<double>(call.number("from")),
                                              .to = static_cast<double>(call.number("to")),
                                              .step = call.number("step")});
  return series.ok() ? json_reply(control::to_json(*series)) : error_reply(series.error());
}

Reply job_series(const Call& call) {
  const Result<JobNumber> number = call.controller.find_job(call.caller, call.text("job"));
  if (!number.ok()) return error_reply(number.error());
  const auto points = call.controller.job_points(call.caller, *number);
  if (!points.ok()) return error_reply(points.error());
  json list = json::array();
  for (const JobPoint& point : *points) list.push_back(control::to_json(point));
  return json_reply({{"job", control::job_name_of(*number)}, {"points", std::move(list)}});
}

Reply get_devices(const Call& call) {
  const auto devices =
      call.controller.devices_at(call.caller, static_cast<double>(call.number("at")));
  return devices.ok() ? json_reply(*devices) : error_reply(devices.error());
}

}  // namespace rubato::api
