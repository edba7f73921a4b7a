// The messages of the membership protocol as the mesh carries them: a kind and a JSON object.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "elastic/membership/messages.h"
#include "elastic/transport/mesh.h"

namespace rubato::elastic {

Message kind_of(const membership::Message& message);
nlohmann::json body_of(const membership::Message& message);
// Nothing if it is malformed, or not a message of the protocol.
std::optional<membership::Message> parse_message(int from, Message kind,
                                                 const nlohmann::json& body);

}  // namespace rubato::elastic
