// LibTorch and its BLAS. This program links neither: it asks the dynamic loader what a training
// program would load, which runs none of that program's code.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "control/doctor/checks.h"
#include "control/doctor/clean_text.h"

namespace rubato::control::doctor {

namespace {

using std::chrono::seconds;

constexpr const char* kName = "libtorch";
constexpr const char* kInstall =
    "install it: apt install libtorch-dev libopenblas0-pthread, or pip install torch";

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.find_last_of('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

const Libraries::Library* find_library(const Libraries& libraries, std::string_view start) {
  const auto at = std::find_if(libraries.found.begin(), libraries.found.end(),
                               [&](const auto& one) { return one.name.starts_with(start); });
  return at == libraries.found.end() ? nullptr : &*at;
}

// The library of this machine: where the loader looks, then where Python keeps it.
std::string find_library_file(const MachineView& view) {
  std::vector<std::string> folders;
  const std::string given = view.environment("LD_LIBRARY_PATH");
  for (const std::string_view one : split(given, ':')) {
    if (!one.empty()) folders.emplace_back(one);
  }
  for (const char* one : {"/usr/local/lib", "/usr/lib/x86_64-linux-gnu",
                          "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"}) {
    folders.emplace_back(one);
  }
  for (const std::string& folder : folders) {
    for (const std::string& name : view.list(folder)) {
      if (name.starts_with("libtorch_cpu.so")) return folder + "/" + name;
    }
  }
  // Finds the package without loading it.
  const Ran python =
      view.run({"python3", "-c", "import importlib.util as u; print(u.find_spec('torch').origin)"},
               seconds(10));
  const std::string_view origin = trim(python.output);
  if (!python.ok() || !origin.starts_with('/') || origin.find('\n') != std::string_view::npos) {
    return "";
  }
  const std::string library = folder_of(std::string(origin)) + "/lib/libtorch_cpu.so";
  return view.file(library).exists ? library : "";
}

// "1.13.0" of "/usr/lib/libtorch_cpu.so.1.13.0".
std::string version_in_name(const std::string& path) {
  const std::size_t at = path.rfind(".so.");
  return at == std::string::npos ? "" : path.substr(at + 4);
}

// "2.3.1+cu121" of version.py: __version__ = '2.3.1+cu121'
std::string version_in_python(std::string_view text) {
  const std::size_t at = text.find("__version__ = ");
  if (at == std::string_view::npos) return "";
  const std::string_view rest = text.substr(at + 14);
  if (rest.empty() || (rest[0] != '\'' && rest[0] != '"')) return "";
  return std::string(rest.substr(1, rest.find(rest[0], 1) - 1));
}

std::string version_of(const MachineView& view, const std::string& library) {
  const std::string file = view.real_path(library);
  const std::string above = folder_of(folder_of(file));
  // pip's package and the archive from pytorch.org say it beside lib/.
  if (const auto python = view.read(above + "/version.py")) return version_in_python(*python);
  if (const auto archive = view.read(above + "/build-version")) return first_line(*archive);
  // A package's version is more exact than the name of its file.
  const Ran owner = view.run({"dpkg-query", "--search", file}, seconds(5));
  if (owner.ok()) {
    const std::string package(owner.output.substr(0, owner.output.find_first_of(":,")));
    const Ran version =
        view.run({"dpkg-query", "--show", "--showformat=${Version}", package}, seconds(5));
    if (version.ok()) return std::string(trim(version.output.substr(0, version.output.find('+'))));
  }
  return version_in_name(file);
}

// "1.13" and everything from 2 on; nothing when it is no version.
std::optional<bool> is_supported(const std::string& version) {
  const auto parts = split(version, '.');
  if (parts.size() < 2) return std::nullopt;
  const auto major = parse_int(parts[0]);
  const auto minor = parse_int(parts[1]);
  if (!major || !minor) return std::nullopt;
  return *major > 1 || (*major == 1 && *minor >= 13);
}

Finding judge(const MachineView& view, const LibTorch& torch, const std::string& user,
              bool has_gpus) {
  const std::string version = clean(version_of(view, torch.path));
  const std::string found =
      fmt::format("{} for {} ({})", version.empty() ? "unknown" : version, user, clean(torch.path));
  const std::optional<bool> supported = is_supported(version);
  if (!supported) {
    return {kName, Level::kWarn, fmt::format("version unknown: {}", found),
            "Rubato is tested with 1.13 and 2.x; check the installation"};
  }
  if (!*supported) {
    return {kName, Level::kWarn, found, "Rubato is tested with 1.13 and 2.x: install a newer one"};
  }
  const bool cuda = find_library(torch.libraries, "libtorch_cuda") != nullptr ||
                    view.file(folder_of(view.real_path(torch.path)) + "/libtorch_cuda.so").exists;
  if (has_gpus && !cuda) {
    return {kName, Level::kWarn, found + ", without CUDA: it cannot use this machine's GPUs",
            "install a CUDA build (pip install torch) and build your program against it"};
  }
  return {kName, Level::kOk, found + (cuda ? ", with CUDA" : ""), ""};
}

std::string base_name(const std::string& path) { return path.substr(path.find_last_of('/') + 1); }

}  // namespace

LibTorch find_libtorch(const MachineView& view, const std::vector<std::string>& programs,
                       bool has_gpus) {
  for (const std::string& program : programs) {
    if (!view.file(program).exists) continue;
    LibTorch torch;
    torch.libraries = view.libraries(program);
    const Libraries::Library* library = find_library(torch.libraries, "libtorch_cpu.so");
    if (!torch.libraries.loadable) {
      torch.finding = {kName, Level::kFail,
                       fmt::format("{} cannot start: {}", clean(base_name(program)),
                                   clean(torch.libraries.problem)),
                       "install the missing library, or name its folder in LD_LIBRARY_PATH"};
    } else if (library == nullptr) {
      torch.finding = {kName, Level::kNote,
                       fmt::format("{} does not link LibTorch", clean(base_name(program))),
                       "name a program that does: rubato doctor --program FILE"};
    } else {
      torch.path = library->path;
      torch.finding = judge(view, torch, clean(base_name(program)), has_gpus);
    }
    return torch;
  }
  LibTorch torch;
  torch.path = find_library_file(view);
  if (torch.path.empty()) {
    torch.finding = {kName, Level::kWarn, "not found: C++ training programs do not run here",
                     kInstall};
    return torch;
  }
  torch.libraries = view.libraries(torch.path);
  if (!torch.libraries.loadable) {
    torch.finding = {
        kName, Level::kFail,
        fmt::format("{} cannot be loaded: {}", clean(torch.path), clean(torch.libraries.problem)),
        kInstall};
    return torch;
  }
  torch.finding = judge(view, torch, "programs built here", has_gpus);
  return torch;
}

Finding check_blas(const MachineView& view, const LibTorch& torch) {
  if (torch.path.empty()) {
    return {"blas", Level::kNote, "unknown without LibTorch", "see libtorch above"};
  }
  const Libraries::Library* plain = find_library(torch.libraries, "libblas.so");
  const std::string plain_file = plain == nullptr ? "" : view.real_path(plain->path);
  for (const char* fast : {"openblas", "mkl", "blis", "atlas", "nvpl", "armpl"}) {
    const bool behind_plain = plain_file.find(fast) != std::string::npos;
    const bool linked =
        plain == nullptr && find_library(torch.libraries, std::string("lib") + fast) != nullptr;
    if (behind_plain || linked) {
      return {"blas", Level::kOk,
              fmt::format("{}{}", fast, behind_plain ? " (" + clean(plain_file) + ")" : ""), ""};
    }
  }
  if (plain != nullptr) {
    return {"blas", Level::kWarn,
            fmt::format("reference BLAS ({}): training on CPUs is up to 20 times slower",
                        clean(plain_file)),
            "apt install libopenblas0-pthread; then 'update-alternatives --display "
            "libblas.so.3-x86_64-linux-gnu' must name openblas"};
  }
  return {"blas", Level::kOk, "inside LibTorch", ""};
}

}  // namespace rubato::control::doctor
