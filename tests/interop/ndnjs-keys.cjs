// ndn-js and SafeBags: reads one made by nw, makes one for nw to read.
// Usage: node ndnjs-keys.cjs <passphrase> <SafeBag of nw> <SafeBag to write> <identity>
"use strict";
const crypto = require("node:crypto");
const fs = require("node:fs");
const { Blob, KeyChain, Name, SafeBag } = require("ndn-js");

const [, , passphrase, input, output, identity] = process.argv;

// ndn-js does not support AES in SafeBags, which ndn-cxx and nw write: Node decrypts the key.
const read = new SafeBag(new Blob(fs.readFileSync(input), true));
const opened = crypto.createPrivateKey({ key: read.getPrivateKeyBag().buf(), format: "der", type: "pkcs8", passphrase });
const keyChain = new KeyChain("pib-memory:", "tpm-memory:");
keyChain.importSafeBag(new SafeBag(read.getCertificate(), new Blob(opened.export({ format: "der", type: "pkcs8" }), false)));
console.log(`read ${keyChain.getDefaultCertificateName().toUri()}`);

const pair = crypto.generateKeyPairSync("rsa", {
  modulusLength: 2048,
  publicKeyEncoding: { type: "spki", format: "der" },
  privateKeyEncoding: { type: "pkcs8", format: "der" },
});
const generated = new KeyChain("pib-memory:", "tpm-memory:");
generated.importSafeBag(new SafeBag(new Name(identity).append("KEY").append("123"), new Blob(pair.privateKey, false),
  new Blob(pair.publicKey, false)));
const key = generated.getPib().getIdentity(new Name(identity)).getDefaultKey();
const bag = generated.exportSafeBag(key.getDefaultCertificate(), Buffer.from(passphrase));
fs.writeFileSync(output, bag.wireEncode().buf());
console.log("written");
