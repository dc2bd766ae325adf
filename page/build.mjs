// Builds the page into dist/: five files, each compressed with gzip. The same sources give the
// same bytes, so that a check can compare. The Rust side embeds dist/; `cargo build` runs no npm.
import { build } from 'esbuild';
import { readFileSync, rmSync, mkdirSync, writeFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
const dist = process.argv[2] ?? join(here, 'dist');
const common = {
  bundle: true,
  minify: true,
  write: false,
  format: 'iife',
  target: ['chrome109', 'firefox115', 'safari16'],
  jsx: 'automatic',
  jsxImportSource: 'preact',
  legalComments: 'none',
  absWorkingDir: here,
  outdir: dist,
};
const scripts = await build({
  ...common,
  entryPoints: { page: 'src/main.tsx', layout: 'src/map/layout.worker.ts', style: 'src/page.css' },
});
const outputs = Object.fromEntries(
  scripts.outputFiles.map((file) => [file.path.split('/').pop(), Buffer.from(file.contents)]),
);
const files = {
  'index.html': readFileSync(join(here, 'src/index.html')),
  'icon.svg': readFileSync(join(here, 'src/icon.svg')),
  'page.js': outputs['page.js'],
  'layout.js': outputs['layout.js'],
  // uPlot's style, imported by the page, and the page's own.
  'page.css': Buffer.concat([outputs['page.css'] ?? Buffer.alloc(0), outputs['style.css']]),
};
rmSync(dist, { recursive: true, force: true });
mkdirSync(dist, { recursive: true });
let total = 0;
for (const [name, content] of Object.entries(files)) {
  const packed = gzipSync(content, { level: 9 });
  packed[9] = 255; // The operating system is not recorded.
  writeFileSync(join(dist, `${name}.gz`), packed);
  total += packed.length;
}
const LIMIT = 150 * 1024;
console.log(`${total} bytes compressed (limit ${LIMIT})`);
if (total > LIMIT) {
  console.error('the page is too large: see the sizes above');
  process.exit(1);
}
