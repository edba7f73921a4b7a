// Writes the built files as a C++ source (src/api/dashboard.h):
//   node embed.mjs dist dashboard_files.cpp
import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join, extname } from 'node:path';
import { gzipSync } from 'node:zlib';

const media = { '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml' };
const [folder, target] = process.argv.slice(2);
const files = [
  { name: 'index.html', media: 'text/html', bytes: readFileSync(join(folder, 'index.html')) },
  ...readdirSync(join(folder, 'assets')).sort().map((name) => ({
    name,
    media: media[extname(name)] ?? 'application/octet-stream',
    bytes: gzipSync(readFileSync(join(folder, 'assets', name)), { level: 9 }),
  })),
];

const arrays = files.map(({ bytes }, i) => `const unsigned char kFile${i}[] = {${bytes.join(',')}};`);
const rows = files.map(({ name, media: type }, i) => `      {"${name}", "${type}", text(kFile${i})},`);
writeFileSync(target, `// Made of the dashboard by web/embed.mjs.
#include "api/dashboard.h"

#include <cstddef>

namespace rubato::api {

namespace {

${arrays.join('\n')}

template <std::size_t n>
std::string_view text(const unsigned char (&bytes)[n]) {
  return {reinterpret_cast<const char*>(bytes), n};
}

}  // namespace

std::span<const DashboardFile> dashboard_files() {
  static const DashboardFile kFiles[] = {
${rows.join('\n')}
  };
  return kFiles;
}

}  // namespace rubato::api
`);
const total = files.reduce((sum, { bytes }) => sum + bytes.length, 0);
console.log(`dashboard: ${files.length} files, ${(total / 1024).toFixed(0)} KB compressed`);
if (total > 150 * 1024) throw new Error('the dashboard is larger than 150 KB');
