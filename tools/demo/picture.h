// The demo's picture: timelines one below the other on the same time axis, as one SVG file.
//
// The file needs nothing else (no script, no font, no request), its text is text, and it follows
// the reader's light or dark colour scheme.
#pragma once

#include <string>
#include <vector>

#include "demo/timeline.h"

namespace rubato::demo {

struct PictureJob {
  control::JobNumber number = 0;
  std::string name;
  double submitted = 0;  // seconds since the first submission, as all times here
};

// From the daemon's end to its restart.
struct Outage {
  double from = 0;
  double to = 0;
};

struct Panel {
  std::string title;
  Timeline timeline;
  std::vector<Outage> outages{};
};

struct Picture {
  std::string title;
  std::vector<PictureJob> jobs;  // in order of submission; their letters are A, B, ...
  std::vector<Panel> panels;
  std::vector<std::string> notes{};  // lines below the legend
};

// The letter of the job at this place in the order of submission.
std::string job_letter(std::size_t index);

std::string svg_of(const Picture& picture);

}  // namespace rubato::demo
