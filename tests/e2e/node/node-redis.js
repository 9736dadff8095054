// Asks by node-redis what test_resp_clients.py wants to know, once for each protocol: node-redis.js PORT. Prints a line of JSON for each.
const { createClient } = require('redis');

async function ask(port, protocol) {
  const client = createClient({ RESP: protocol, socket: { host: '127.0.0.1', port: Number(port), reconnectStrategy: false } });
  client.on('error', (error) => { throw error; });
  await client.connect();
  const key = `node-redis${protocol}`;
  const send = (...words) => client.sendCommand(words.map(String));
  const fresh = await send('CL.THROTTLE', key, 4, 1, 10);
  const taken = await send('CAUDAL.TAKE', 'per-key', key, 'COST', 2);
  // What is sent in one turn travels together.
  const replies = await Promise.all(Array.from({ length: 100 }, () => send('CL.THROTTLE', `${key} many`, 99, 1, 86400)));
  const unknown = await send('NOTHING').catch((error) => error.message);
  const wrong = await send('CL.THROTTLE', key, 4, 0, 10).catch((error) => error.message);
  const told = { protocol, fresh, taken, left: replies.map((reply) => reply[2]), unknown, wrong, ping: await client.ping() };
  await client.close();
  return told;
}

(async () => {
  for (const protocol of [2, 3]) console.log(JSON.stringify(await ask(process.argv[2], protocol)));
})();
