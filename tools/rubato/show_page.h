// Shows a page to the person who called the command.
#pragma once

#include <string>

#include "base/result.h"

namespace rubato::cli {

// Opens a file in the browser and returns at once. Where there is no display, no xdg-open, or it
// fails, it says so on standard error, with the address to open instead.
void open_in_browser(const std::string& path);

// Serves the page on 127.0.0.1 until the command is interrupted. The address, which is printed, has
// a random part: other users of this machine cannot guess it. Port 0: a free one.
Status serve_page(const std::string& page, int port);

}  // namespace rubato::cli
