// ndn-js and SafeBags: reads one that nw made, makes one that nw reads.
// Usage: node ndnjs-keys.cjs <passphrase> <SafeBag of nw> <SafeBag to write> <identity>
"use strict";
const crypto = require("node:crypto");
const fs = require("node:fs");
const { Blob, KeyChain, Name, SafeBag } = require("ndn-js");

const [, , passphrase, ours, theirs, identity] = process.argv;

// It knows no AES within a SafeBag, which is what ndn-cxx writes too: Node opens the key, ndn-js does the rest.
const read = new SafeBag(new Blob(fs.readFileSync(ours), true));
const opened = crypto.createPrivateKey({ key: read.getPrivateKeyBag().buf(), format: "der", type: "pkcs8", passphrase });
const keyChain = new KeyChain("pib-memory:", "tpm-memory:");
keyChain.importSafeBag(new SafeBag(read.getCertificate(), new Blob(opened.export({ format: "der", type: "pkcs8" }), false)));
console.log(`read ${keyChain.getDefaultCertificateName().toUri()}`);

const pair = crypto.generateKeyPairSync("rsa", {
  modulusLength: 2048,
  publicKeyEncoding: { type: "spki", format: "der" },
  privateKeyEncoding: { type: "pkcs8", format: "der" },
});
const other = new KeyChain("pib-memory:", "tpm-memory:");
other.importSafeBag(new SafeBag(new Name(identity).append("KEY").append("123"), new Blob(pair.privateKey, false),
  new Blob(pair.publicKey, false)));
const certificate = other.getPib().getIdentity(new Name(identity)).getDefaultKey().getDefaultCertificate();
fs.writeFileSync(theirs, other.exportSafeBag(certificate, Buffer.from(passphrase)).wireEncode().buf());
console.log("written");
