#include "elastic/launch/program_mark.h"

#include <elf.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "base/file.h"
#include "control/temporary_folder.h"

namespace rubato::elastic {
namespace {

std::string bytes_of(const void* from, std::size_t count) {
  return {static_cast<const char*>(from), count};
}

// A file with one section of this name, beside the one for names.
std::string elf_with(const std::string& section) {
  const std::string names = std::string(1, '\0') + section + '\0' + ".shstrtab" + '\0';
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_shoff = sizeof header;
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = 2;
  header.e_shstrndx = 1;
  Elf64_Shdr marked{};
  marked.sh_name = 1;
  Elf64_Shdr table{};
  table.sh_name = static_cast<Elf64_Word>(section.size() + 2);
  table.sh_offset = sizeof header + 2 * sizeof table;
  table.sh_size = names.size();
  return bytes_of(&header, sizeof header) + bytes_of(&marked, sizeof marked) +
         bytes_of(&table, sizeof table) + names;
}

class ProgramMark : public ::testing::Test {
 protected:
  bool marked(const std::string& content) {
    EXPECT_TRUE(write_file(path_, content).ok());
    return has_program_mark(path_);
  }
  TemporaryFolder folder_;
  std::string path_ = folder_.path() + "/program";
};

TEST_F(ProgramMark, IsASectionOfItsName) {
  EXPECT_TRUE(marked(elf_with("rubato_program")));
  EXPECT_FALSE(marked(elf_with("rubato_programs")));
  EXPECT_FALSE(marked(elf_with("rubato")));
  EXPECT_FALSE(has_program_mark("/proc/self/exe"));
}

TEST_F(ProgramMark, IsNotInWhatCannotBeRead) {
  EXPECT_FALSE(has_program_mark(folder_.path()));
  EXPECT_FALSE(has_program_mark(folder_.path() + "/missing"));
  EXPECT_FALSE(marked("#!/bin/sh\n"));
  const std::string whole = elf_with("rubato_program");
  for (std::size_t length = 0; length + 10 < whole.size(); ++length) {
    EXPECT_FALSE(marked(whole.substr(0, length))) << length;
  }
  for (std::size_t at = 0; at < whole.size(); ++at) {  // whatever the answer is, it answers
    std::string damaged = whole;
    damaged[at] = static_cast<char>(~damaged[at]);
    static_cast<void>(marked(damaged));
  }
}

}  // namespace
}  // namespace rubato::elastic
