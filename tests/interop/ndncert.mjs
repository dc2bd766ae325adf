// A certificate authority of NDNCERT 0.3 with NDNts.
// Usage: node ndncert.mjs SOCKET PREFIX [SITES [TOKEN,TOKEN…]]
// SOCKET is a router's Unix socket. Each token serves once. Prints lines: `certificate BASE64`, `ready`, and `pin CODE` for
// each request. Ends when standard input closes.
import "./shims.mjs";

const { produce } = await import("@ndn/endpoint");
const { Certificate, generateSigningKey } = await import("@ndn/keychain");
const { CaProfile, Server, ServerPinChallenge, ServerPossessionChallenge } =
  await import("@ndn/ndncert");
const { enableNfdPrefixReg } = await import("@ndn/nfdmgmt");
const { UnixTransport } = await import("@ndn/node-transport");
const { Name, ValidityPeriod } = await import("@ndn/packet");
const { Encoder } = await import("@ndn/tlv");

const [, , socket, prefix] = process.argv;
const face = await UnixTransport.createFace({}, socket);
enableNfdPrefixReg(face);

const [privateKey, publicKey] = await generateSigningKey(new Name(prefix));
const validity = ValidityPeriod.daysFromNow(30);
const cert = await Certificate.selfSign({ privateKey, publicKey, validity });
const profile = await CaProfile.build({
  prefix: new Name(prefix),
  info: "CA of the tests",
  probeKeys: [],
  maxValidityPeriod: 86400000,
  cert,
  signer: privateKey,
});

const pin = new ServerPinChallenge();
pin.addEventListener("newpin", (event) => console.log(`pin ${event.pin}`));
const possession = new ServerPossessionChallenge(publicKey);
const tokens = new Set((process.argv[5] ?? "").split(",").filter(Boolean));
const token = {
  challengeId: "token",
  timeLimit: 60000,
  retryLimit: 1,
  async process({ parameters }) {
    const accepted = tokens.delete(Buffer.from(parameters.token ?? []).toString());
    return accepted ? { success: true } : { decrementRetry: true, challengeStatus: "wrong-token" };
  },
};
const issued = new Map();
const repo = { insert: async (data) => { issued.set(data.name.toString(), data); } };
Server.create({ repo, profile, signer: privateKey, challenges: [pin, possession, token] });
// Serves the certificates that were issued, and its own.
produce(new Name("/"), async (interest) => {
  for (const data of [...issued.values(), cert.data]) {
    if (await interest.name.getPrefix(data.name.length).equals(data.name)) {
      return data;
    }
  }
  return undefined;
}, { announcement: new Name(process.argv[4] ?? "/site") });

console.log(`certificate ${Buffer.from(Encoder.encode(cert.data)).toString("base64")}`);
console.log("ready");
process.stdin.resume();
process.stdin.on("end", () => process.exit(0));
