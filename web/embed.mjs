// Writes the built files as C++ sources (src/api/dashboard.h, src/sim/report_bundle.h):
//   node embed.mjs dashboard dist dashboard_files.cpp
//   node embed.mjs report dist-report report_bundle.cpp
import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join, extname } from 'node:path';
import { gzipSync } from 'node:zlib';

const [what, folder, target] = process.argv.slice(2);
const gzip = (bytes) => gzipSync(bytes, { level: 9 });

const media = { '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml' };
const dashboardFiles = () => [
  { name: 'index.html', media: 'text/html', bytes: readFileSync(join(folder, 'index.html')) },
  ...readdirSync(join(folder, 'assets')).sort().map((name) => ({
    name,
    media: media[extname(name)] ?? 'application/octet-stream',
    bytes: gzip(readFileSync(join(folder, 'assets', name))),
  })),
];

// These two become parts of a page: nothing in them may end their element.
const reportFiles = () => ['report.js', 'report.css'].map((name) => {
  const bytes = readFileSync(join(folder, name));
  if (/<\/(script|style)|<!--|\r/i.test(bytes.toString())) throw new Error(`${name} cannot be put into a page`);
  return { name, bytes };
});

const source = (header, files, body) => `// Made of the dashboard by web/embed.mjs.
#include "${header}"

#include <cstddef>

${body(`namespace {

${files.map(({ bytes }, i) => `const unsigned char kFile${i}[] = {${bytes.join(',')}};`).join('\n')}

template <std::size_t n>
std::string_view text(const unsigned char (&bytes)[n]) {
  return {reinterpret_cast<const char*>(bytes), n};
}

}  // namespace`)}
`;

const dashboardSource = (files) => source('api/dashboard.h', files, (arrays) => `namespace rubato::api {

${arrays}

std::span<const DashboardFile> dashboard_files() {
  static const DashboardFile kFiles[] = {
${files.map(({ name, media: type }, i) => `      {"${name}", "${type}", text(kFile${i})},`).join('\n')}
  };
  return kFiles;
}

}  // namespace rubato::api`);

const reportSource = (files) => source('sim/report_bundle.h', files, (arrays) => `namespace rubato {

${arrays}

ReportBundle report_bundle() { return {.script = text(kFile0), .style = text(kFile1)}; }

}  // namespace rubato`);

const files = what === 'report' ? reportFiles() : dashboardFiles();
writeFileSync(target, what === 'report' ? reportSource(files) : dashboardSource(files));
const total = files.reduce((sum, { bytes }) => sum + (what === 'report' ? gzip(bytes) : bytes).length, 0);
console.log(`${what}: ${files.length} files, ${(total / 1024).toFixed(0)} KB compressed`);
if (total > 150 * 1024) throw new Error(`the ${what} is larger than 150 KB`);
