// NDNts 0.0.20250307 is written for Node 22. Node 20 lacks two functions that it calls.
Promise.withResolvers ??= function withResolvers() {
  let resolve;
  let reject;
  const promise = new this((res, rej) => {
    resolve = res;
    reject = rej;
  });
  return { promise, resolve, reject };
};

Array.fromAsync ??= async function fromAsync(iterable) {
  const out = [];
  for await (const item of iterable) {
    out.push(item);
  }
  return out;
};
