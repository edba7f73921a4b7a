// A caller's place among the open streams (streams.h), for handlers.
#pragma once

#include <memory>

#include "api/route.h"

namespace rubato::api {

// A place for a stream of the caller. Null: there is none, see no_stream_place().
std::shared_ptr<void> enter_stream(const Call& call);
Reply no_stream_place(const Call& call);

}  // namespace rubato::api
