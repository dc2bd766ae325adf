// ndn-js in its usual form: an RSA key, a registration (command Interest of format 0.2), one
// exchange.
// Usage: node ndnjs.cjs <uplink URI> <prefix>
"use strict";
const crypto = require("node:crypto");
const { Blob, Data, Face, Interest, KeyChain, Name, SafeBag, TcpTransport, UnixTransport } = require("ndn-js");

const [, , uplink, prefixUri] = process.argv;

function openFace() {
  if (uplink.startsWith("unix:")) {
    return new Face(new UnixTransport(), new UnixTransport.ConnectionInfo(uplink.slice("unix://".length)));
  }
  const u = new URL(uplink.replace(/^tcp4/, "http"));
  return new Face(new TcpTransport(), new TcpTransport.ConnectionInfo(u.hostname, Number(u.port)));
}

// The library's key generation needs a native add-on, so Node makes the key.
const pair = crypto.generateKeyPairSync("rsa", {
  modulusLength: 2048,
  publicKeyEncoding: { type: "spki", format: "der" },
  privateKeyEncoding: { type: "pkcs8", format: "der" },
});
const keyChain = new KeyChain("pib-memory:", "tpm-memory:");
keyChain.importSafeBag(new SafeBag(new Name("/nwi/KEY/123"), new Blob(pair.privateKey, false),
  new Blob(pair.publicKey, false)));

const producer = openFace();
const consumer = openFace();
producer.setCommandSigningInfo(keyChain, keyChain.getDefaultCertificateName());

function fail(reason) {
  console.log(`ndn-js failed: ${reason}`);
  process.exit(1);
}

function onInterest(prefix, interest, face) {
  const data = new Data(interest.getName());
  data.setContent("hello from ndn-js");
  keyChain.sign(data);
  face.putData(data);
}

function onRegistered() {
  const interest = new Interest(new Name(prefixUri).append("x"));
  interest.setInterestLifetimeMilliseconds(3000);
  consumer.expressInterest(interest, (_interest, data) => {
    console.log(`ndn-js got: ${data.getContent().buf().toString()}`);
    process.exit(0);
  }, () => fail("timeout"), () => fail("network Nack"));
}

producer.registerPrefix(new Name(prefixUri), onInterest, () => fail("registration refused"), onRegistered);
