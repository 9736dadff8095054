// Asks by ioredis what test_resp_clients.py wants to know, once for each protocol: ioredis.js PORT. Prints a line of JSON for each.
const { Redis } = require('ioredis');

async function ask(port, protocol) {
  const client = new Redis(port, '127.0.0.1', { protocol, maxRetriesPerRequest: 0, retryStrategy: null });
  const key = `ioredis${protocol}`;
  const fresh = await client.call('CL.THROTTLE', key, 4, 1, 10);
  const taken = await client.call('CAUDAL.TAKE', 'per-key', key, 'COST', 2);
  const pipeline = client.pipeline();
  for (let i = 0; i < 100; i++) pipeline.call('CL.THROTTLE', `${key} many`, 99, 1, 86400);
  const left = (await pipeline.exec()).map(([error, reply]) => (error ? error.message : reply[2]));
  const unknown = await client.call('NOTHING').catch((error) => error.message);
  const wrong = await client.call('CL.THROTTLE', key, 4, 0, 10).catch((error) => error.message);
  const told = { protocol, fresh, taken, left, unknown, wrong, ping: await client.ping() };
  await client.quit();
  return told;
}

(async () => {
  for (const protocol of [2, 3]) console.log(JSON.stringify(await ask(process.argv[2], protocol)));
})();
