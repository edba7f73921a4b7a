#include "elastic/launch/program_mark.h"

#include <elf.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "elastic/transport/descriptor.h"

namespace rubato::elastic {

namespace {

constexpr std::size_t kMostSections = 4096;
constexpr std::size_t kMostNames = 1 << 20;

bool read_at(int file, void* to, std::size_t bytes, std::uint64_t offset) {
  return pread(file, to, bytes, static_cast<off_t>(offset)) == static_cast<ssize_t>(bytes);
}

}  // namespace

bool has_program_mark(const std::string& path) {
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  Elf64_Ehdr header{};
  if (!file.valid() || !read_at(file.get(), &header, sizeof header, 0)) return false;
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_shentsize != sizeof(Elf64_Shdr) || header.e_shnum > kMostSections ||
      header.e_shstrndx >= header.e_shnum) {
    return false;
  }
  std::vector<Elf64_Shdr> sections(header.e_shnum);
  if (!read_at(file.get(), sections.data(), sections.size() * sizeof(Elf64_Shdr), header.e_shoff)) {
    return false;
  }
  const Elf64_Shdr& table = sections[header.e_shstrndx];
  if (table.sh_size > kMostNames) return false;
  std::string names(table.sh_size, '\0');
  if (!read_at(file.get(), names.data(), names.size(), table.sh_offset)) return false;
  for (const Elf64_Shdr& section : sections) {
    if (section.sh_name >= names.size()) continue;
    const std::string_view rest = std::string_view(names).substr(section.sh_name);
    if (rest.substr(0, rest.find('\0')) == kProgramMarkSection) return true;
  }
  return false;
}

}  // namespace rubato::elastic
