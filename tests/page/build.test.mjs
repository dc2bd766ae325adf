// The committed files are what the sources build, and the types are those of the documents.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';

const page = join(import.meta.dirname, '../../page');

function temporary(t) {
  const folder = mkdtempSync(join(tmpdir(), 'nw-page-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

function assertSameFiles(expected, actual, advice) {
  const names = readdirSync(expected).sort();
  assert.deepEqual(readdirSync(actual).sort(), names, advice);
  for (const name of names) {
    assert.ok(
      readFileSync(join(expected, name)).equals(readFileSync(join(actual, name))),
      `${name} differs: ${advice}`,
    );
  }
}

test('build_of_the_sources_equals_the_committed_files', (t) => {
  const folder = temporary(t);
  execFileSync('node', ['build.mjs', folder], { cwd: page });
  assertSameFiles(join(page, 'dist'), folder, 'run npm run build in page/ and commit dist/');
});

test('types_equal_the_openapi_documents', (t) => {
  const folder = temporary(t);
  execFileSync('node', ['types.mjs', folder], { cwd: page, env: process.env });
  assertSameFiles(
    join(page, 'src/types'),
    folder,
    'run npm run types in page/ and commit src/types/',
  );
});

test('sources_have_no_type_errors', () => {
  execFileSync('npx', ['--no-install', 'tsc', '--noEmit'], {
    cwd: page,
    stdio: 'pipe',
  });
});
