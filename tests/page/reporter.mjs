// One line for each test, and a summary that tools/check counts.
export default async function* report(source) {
  let [passed, failed, skipped] = [0, 0, 0];
  for await (const { type, data } of source) {
    if (type === 'test:stderr' || type === 'test:stdout') yield data.message;
    if (type !== 'test:pass' && type !== 'test:fail') continue;
    // A file is a test of its own: only what is inside counts.
    if (data.details.type === 'suite' || data.name.endsWith('.mjs')) continue;
    // Tests that --only left out.
    if (data.skip === 'test name does not match pattern') continue;
    if (data.skip !== undefined) {
      skipped += 1;
      yield `skipped: ${data.name}: ${data.skip}\n`;
    } else if (type === 'test:pass') {
      passed += 1;
      yield `ok ${data.name} (${Math.round(data.details.duration_ms)} ms)\n`;
    } else {
      failed += 1;
      const error = data.details.error;
      yield `FAILED ${data.name}\n${error.cause?.stack ?? error.cause ?? error.stack ?? error}\n`;
    }
  }
  yield `${passed} passed, ${failed} failed, ${skipped} skipped\n`;
}
