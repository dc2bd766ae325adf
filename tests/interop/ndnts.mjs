// The NDNts side of the NDNts tests. Usage: node ndnts.mjs <uplink URI> <verb> <arguments...>
// Long-running verbs print "ready" once registered and end when standard input closes.
import "./shims.mjs";

import { createHash } from "node:crypto";
import fs from "node:fs/promises";
import { createInterface } from "node:readline";

const { consume, produce } = await import("@ndn/endpoint");
const { FwTracer } = await import("@ndn/fw");
const { ECDSA, generateSigningKey } = await import("@ndn/keychain");
const nfd = await import("@ndn/nfdmgmt");
const { TcpTransport, UdpTransport, UnixTransport } = await import("@ndn/node-transport");
const { Component, Data, digestSigning, Interest, Name } = await import("@ndn/packet");
const { WebSocket } = await import("ws");
const { WsTransport } = await import("@ndn/ws-transport");
const { retrieveMetadata, serveMetadata, Metadata } = await import("@ndn/rdr");
const { fetch, FileChunkSource, serve } = await import("@ndn/segmented-object");
const { Segment3, SequenceNum: Sequence, Version: Version3 } =
  await import("@ndn/naming-convention2");
const { Encoder, NNI } = await import("@ndn/tlv");

const [, , uplink, verb, ...args] = process.argv;
if (process.env.NDNTS_TRACE) {
  FwTracer.enable();
}

/** Returns a connection like a browser page's if NDNTS_ORIGIN is set, otherwise like a program's. */
function webSocketOf(uri) {
  const origin = process.env.NDNTS_ORIGIN;
  return origin ? new WebSocket(uri, { origin }) : uri;
}

function openFace() {
  const [, scheme, address] = /^(\w+):\/\/(.*)$/.exec(uplink);
  if (scheme === "unix") {
    return UnixTransport.createFace({}, address);
  }
  if (scheme === "ws") {
    return WsTransport.createFace({}, webSocketOf(uplink));
  }
  const { hostname: host, port } = new URL(`http://${address}`);
  return scheme === "udp4" ?
    UdpTransport.createFace({}, { host, port: Number(port) }) :
    TcpTransport.createFace({}, host, Number(port));
}

// NDNts sends commands to /localhop/nfd over UDP, and over WebSocket unless the router is local.
const face = await openFace();
const commandPrefix = nfd.getPrefix(!uplink.startsWith("udp"));
let registration;

function enableRegistration() {
  registration = nfd.enableNfdPrefixReg(face);
}

/** Waits until the prefix is registered (status 1 = advertised). */
async function waitRegistered(prefix) {
  for (let i = 0; i < 100; ++i) {
    const record = registration.table.get(new Name(prefix));
    if (record?.status === 1) {
      return;
    }
    await new Promise((r) => setTimeout(r, 30));
  }
  throw new Error(`registration of ${prefix} was not confirmed`);
}

async function serveUntilInputEnds() {
  console.log("ready");
  process.stdin.resume();
  await new Promise((r) => process.stdin.on("end", r));
}

const sha256 = (b) => createHash("sha256").update(b).digest("hex");
const retx = { limit: 2, interval: 1000 };

const verbs = {
  /** Fetches one packet and prints its content. */
  async consume(name) {
    const interest = new Interest(name, Interest.CanBePrefix, Interest.MustBeFresh);
    const data = await consume(interest, { retx });
    process.stdout.write(`${new TextDecoder().decode(data.content)}\n`);
  },

  /** Answers each Interest under a prefix with the number of bytes of its parameters. */
  async produce(prefix) {
    enableRegistration();
    produce(prefix, async (interest) => {
      const text = `ndnts says hello; ${interest.appParameters?.length ?? 0} bytes of parameters`;
      return new Data(interest.name, Data.FreshnessPeriod(1), new TextEncoder().encode(text));
    }, { dataSigner: digestSigning });
    await waitRegistered(prefix);
    await serveUntilInputEnds();
  },

  /**
   * Like `produce`, registered by a prefix announcement without a signature (the library's
   * default).
   */
  async announce(prefix) {
    registration = nfd.enableNfdPrefixReg(face, { PrefixAnn: nfd.PrefixAnn });
    const announced = new Name(prefix);
    const announcement = await nfd.PrefixAnn.build({ announced, expirationPeriod: 600_000 });
    const content = new TextEncoder().encode("announced");
    produce(prefix, async (interest) => new Data(interest.name, Data.FreshnessPeriod(1), content),
      { announcement, dataSigner: digestSigning });
    await waitRegistered(prefix);
    await serveUntilInputEnds();
  },

  /**
   * Joins a sync group, publishes each line of standard input, and prints numbers that are new, and
   * the publications.
   */
  async sync(group, member) {
    enableRegistration();
    const { SvSync } = await import("@ndn/svs");
    const syncPrefix = new Name(`${group}/32=svs`);
    const prefix = new Name(`${group}${member}`);
    const lines = [];
    // Names as those of NDNd: …/seq=N/v=0/seg=0.
    produce(prefix, async (interest) => {
      const number = Sequence.parse(interest.name.at(-3));
      const content = new TextEncoder().encode(lines[number - 1]);
      return new Data(interest.name, Data.FreshnessPeriod(1000), content);
    }, { dataSigner: digestSigning });
    const sync = await SvSync.create({
      syncPrefix, svs3: true, signer: digestSigning, verifier: digestSigning,
    });
    sync.addEventListener("rxerror", ({ detail: [, err] }) => console.log(`error ${err}`));
    sync.addEventListener("update", async ({ node, loSeqNum, hiSeqNum }) => {
      const { name, boot } = node.id;
      console.log(`update ${name} ${loSeqNum} ${hiSeqNum}`);
      // The component t= has seconds here.
      const start = new Component(0x38, Encoder.encode(NNI(boot)));
      for (let number = loSeqNum; number <= hiSeqNum; ++number) {
        const publication = new Name(group).append(...name.comps, start)
          .append(Sequence, number).append(Version3, 0).append(Segment3, 0);
        try {
          const { content } = await consume(new Interest(publication), { retx });
          console.log(`publication ${name} ${number} ${new TextDecoder().decode(content)}`);
        } catch (err) {
          console.log(`missing ${name} ${number} ${err}`);
        }
      }
    });
    await waitRegistered(syncPrefix);
    await waitRegistered(prefix);
    const node = sync.add(member);
    console.log("ready");
    for await (const line of createInterface({ input: process.stdin })) {
      lines.push(line);
      node.seqNum += 1;
    }
  },

  /** Sends a signed Interest with parameters; the library checks the name of the answer. */
  async signed(name) {
    const [privateKey, publicKey] = await generateSigningKey("/nwi/ndnts", ECDSA);
    const interest = new Interest(name, new TextEncoder().encode("parameters"));
    await privateKey.sign(interest);
    await publicKey.verify(interest);
    const data = await consume(interest, { retx });
    process.stdout.write(`${new TextDecoder().decode(data.content)}\n`);
  },

  /** Publishes a file with version discovery by metadata. */
  async put(prefix, file, chunkSize = "8000") {
    enableRegistration();
    const versioned = new Name(prefix).append(Version3, Date.now());
    const source = new FileChunkSource(file, { chunkSize: Number(chunkSize) });
    const pOpts = { dataSigner: digestSigning };
    serve(versioned, source, { producerPrefix: new Name(prefix), pOpts });
    serveMetadata(new Metadata(versioned), { prefix: new Name(prefix), pOpts });
    await waitRegistered(prefix);
    await serveUntilInputEnds();
  },

  /** Fetches a file by metadata discovery; prints its length in bytes and its digest. */
  async get(prefix, file) {
    const { name } = await retrieveMetadata(prefix, { retx });
    const content = await fetch(name, { modifyInterest: { lifetime: 2000 }, retxLimit: 10 });
    await fs.writeFile(file, content);
    console.log(`${content.length} ${sha256(content)}`);
  },

  /** Fetches every dataset that the library can decode. */
  async status() {
    const o = { prefix: commandPrefix, cOpts: { retx } };
    const out = {};
    for (const [key, dataset] of Object.entries({
      general: nfd.GeneralStatus, faces: nfd.FaceStatus, channels: nfd.ChannelStatus,
      rib: nfd.RibEntry, strategies: nfd.StrategyChoice, cs: nfd.CsInfo })) {
      out[key] = (await nfd.list(dataset, o)).length;
    }
    const [own] = await nfd.list(nfd.FaceQuery({ uriScheme: { unix: "unix", tcp4: "tcp4", ws: "wsclient" }[uplink.split(":")[0]] }), o);
    out.query = Boolean(own?.faceId);
    console.log(JSON.stringify(out));
  },

  /** Sends commands of every module; the library decodes the answers. */
  async manage(prefix) {
    const o = { prefix: commandPrefix, cOpts: { retx } };
    const out = {};
    const uri = "udp4://127.0.0.1:17001";
    const created = await nfd.invoke("faces/create", { uri }, o);
    out["faces/create"] = created.statusCode;
    const { faceId } = nfd.ControlParameters.decodeFromResponseBody(created);
    const again = await nfd.invoke("faces/create", { uri }, o);
    out["faces/create again"] = again.statusCode;
    out["same face"] = nfd.ControlParameters.decodeFromResponseBody(again).faceId === faceId;
    out["faces/update"] = (await nfd.invoke("faces/update", { faceId, flags: 4, mask: 4 }, o)).statusCode;
    out["rib/register"] = (await nfd.invoke("rib/register", { name: new Name(prefix), faceId, cost: 5, flags: 2, expirationPeriod: 60000 }, o)).statusCode;
    const entry = (await nfd.list(nfd.RibEntry, o)).find((e) => e.name.equals(prefix));
    const route = entry?.route.find((r) => r.faceId === faceId);
    out.route = route ? [route.cost, route.flagCapture, route.flagChildInherit] : null;
    out["rib/unregister"] = (await nfd.invoke("rib/unregister", { name: new Name(prefix), faceId }, o)).statusCode;
    out["strategy-choice/set"] = (await nfd.invoke("strategy-choice/set", { name: new Name(prefix), strategy: new Name("/localhost/nfd/strategy/multicast") }, o)).statusCode;
    out["strategy-choice/unset"] = (await nfd.invoke("strategy-choice/unset", { name: new Name(prefix) }, o)).statusCode;
    out["cs/config"] = (await nfd.invoke("cs/config", {}, o)).statusCode;
    out["cs/erase"] = await nfd.invokeCsErase(new Name(prefix), o);
    out["faces/destroy"] = (await nfd.invoke("faces/destroy", { faceId }, o)).statusCode;
    console.log(JSON.stringify(out));
  },
};

try {
  await verbs[verb](...args);
  process.exit(0);
} catch (err) {
  console.error(err);
  process.exit(1);
}
