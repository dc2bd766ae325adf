// jndn in its usual form: an RSA key, a registration (command Interest of format 0.2), one
// exchange.
// Usage: java -cp 'jars/*' Jndn.java <uplink URI> <producer uplink URI> <prefix>
import java.nio.ByteBuffer;
import java.security.KeyPair;
import java.security.KeyPairGenerator;
import net.named_data.jndn.Data;
import net.named_data.jndn.Face;
import net.named_data.jndn.Interest;
import net.named_data.jndn.Name;
import net.named_data.jndn.encoding.Tlv0_3WireFormat;
import net.named_data.jndn.encoding.WireFormat;
import net.named_data.jndn.security.KeyChain;
import net.named_data.jndn.security.SafeBag;
import net.named_data.jndn.transport.TcpTransport;
import net.named_data.jndn.transport.UdpTransport;
import net.named_data.jndn.util.Blob;

public class Jndn {
  static boolean done;

  static Face open(String uri) throws Exception {
    String[] parts = uri.replaceFirst("^\\w+://", "").split(":");
    int port = Integer.parseInt(parts[1]);
    return uri.startsWith("udp")
        ? new Face(new UdpTransport(), new UdpTransport.ConnectionInfo(parts[0], port))
        : new Face(new TcpTransport(), new TcpTransport.ConnectionInfo(parts[0], port));
  }

  public static void main(String[] args) throws Exception {
    // The library's default is packet format 0.2, which routers no longer accept.
    WireFormat.setDefaultWireFormat(Tlv0_3WireFormat.get());
    KeyPairGenerator generator = KeyPairGenerator.getInstance("RSA");
    generator.initialize(2048);
    KeyPair pair = generator.generateKeyPair();
    KeyChain keyChain = new KeyChain("pib-memory:", "tpm-memory:");
    keyChain.importSafeBag(new SafeBag(new Name("/nwi/KEY/123"), new Blob(pair.getPrivate().getEncoded(), false),
        new Blob(pair.getPublic().getEncoded(), false)));
    Face consumer = open(args[0]);
    Face producer = open(args[1]);
    producer.setCommandSigningInfo(keyChain, keyChain.getDefaultCertificateName());
    Name prefix = new Name(args[2]);
    producer.registerPrefix(prefix, (p, interest, face, id, filter) -> {
      try {
        Data data = new Data(interest.getName());
        data.setContent(new Blob("hello from jndn"));
        keyChain.sign(data);
        face.putData(data);
      } catch (Exception e) {
        fail(e.toString());
      }
    }, p -> fail("registration refused"), (p, id) -> {
      try {
        Interest interest = new Interest(new Name(prefix).append("x"));
        interest.setInterestLifetimeMilliseconds(3000);
        consumer.expressInterest(interest, (request, data) -> {
          System.out.println("jndn got: " + data.getContent().toString());
          done = true;
        }, late -> fail("timeout"), (refused, nack) -> fail("network Nack"));
      } catch (Exception e) {
        fail(e.toString());
      }
    });
    long end = System.currentTimeMillis() + 10000;
    while (!done && System.currentTimeMillis() < end) {
      producer.processEvents();
      consumer.processEvents();
      Thread.sleep(2);
    }
    System.exit(done ? 0 : 1);
  }

  static void fail(String reason) {
    System.out.println("jndn failed: " + reason);
    System.exit(1);
  }
}
