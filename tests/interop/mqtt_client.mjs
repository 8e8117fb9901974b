// MQTT.js as a program: node mqtt_client.mjs URL VERSION [OPTIONS as JSON]
//
// Reads a command on each line, {"do": ..., ...}, carries out one after the other, and writes what it
// hears as JSON, a line each. Ends with its input.
import { createInterface } from 'node:readline';
import mqtt from 'mqtt';

const [url, version, wishes] = process.argv.slice(2);
const options = {
  protocolVersion: Number(version), reconnectPeriod: 0, ...JSON.parse(wishes ?? '{}'),
};
if (version === '3') {
  Object.assign(options, { protocolId: 'MQIsdp', clientId: 'mqttjs' });
}

const say = (what) => process.stdout.write(`${JSON.stringify(what)}\n`);
const client = mqtt.connect(url, options); // what waited for it comes with CONNACK: listen first
client.on('message', (topic, payload, packet) =>
  say({
    heard: topic,
    payload: payload.toString(),
    retain: packet.retain,
    qos: packet.qos,
    properties: packet.properties ?? {},
  }),
);
client.on('error', (error) => say({ error: error.message }));

const commands = {
  subscribe: async ({ topic, ...rest }) => ({
    subscribed: await client.subscribeAsync(topic, { qos: 1, ...rest }),
  }),
  publish: async ({ topic, payload, ...rest }) => {
    const packet = await client.publishAsync(topic, payload, { qos: 1, ...rest });
    return { published: topic, properties: packet?.properties ?? {} };
  },
};

await new Promise((done) => {
  client.once('connect', () => {
    say({ connected: true });
    done();
  });
});
for await (const line of createInterface({ input: process.stdin })) {
  const { do: name, ...rest } = JSON.parse(line);
  try {
    say(await commands[name](rest));
  } catch (error) {
    say({ error: error.message, code: error.code });
  }
}
await client.endAsync();
