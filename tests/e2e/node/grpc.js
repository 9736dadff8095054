// Asks by @grpc/grpc-js what test_grpc_clients.py wants to know: grpc.js ADDRESS. Prints one line of JSON.
const path = require('path');
const grpc = require('@grpc/grpc-js');
const loader = require('@grpc/proto-loader');

function load(file) {
  const options = { includeDirs: [path.join(__dirname, '..')], keepCase: true, enums: String, longs: String, defaults: true };
  return grpc.loadPackageDefinition(loader.loadSync(file, options));
}

const service = new (load('ratelimit.proto').envoy.service.ratelimit.v3.RateLimitService)(
  process.argv[2], grpc.credentials.createInsecure());
const health = new (load('health.proto').grpc.health.v1.Health)(process.argv[2], grpc.credentials.createInsecure());

function request(value, more = {}) {
  return { domain: 'node', descriptors: [{ entries: [{ key: 'k', value }], ...more }] };
}

// What a call ends with: its response, or the number and the words of its status.
function call(client, method, message, options = { deadline: Date.now() + 20000 }) {
  return new Promise((resolve) => {
    client[method](message, options, (error, response) => resolve(error ? { code: error.code, details: error.details } : response));
  });
}

const ask = (message) => call(service, 'ShouldRateLimit', message);

function cancelled(message) {
  return new Promise((resolve) => {
    service.ShouldRateLimit(message, (error) => resolve(error ? error.code : 0)).cancel();
  });
}

(async () => {
  const told = { first: await ask(request('a')) };
  told.codes = [];
  for (let i = 0; i < 4; i++) told.codes.push((await ask(request('a'))).overall_code);
  // All at once, on one connection.
  const many = await Promise.all(Array.from({ length: 1000 }, () => ask(request('many', { limit: { requests_per_unit: 1000, unit: 'YEAR' } }))));
  told.many = many.map((response) => response.statuses && response.statuses[0].limit_remaining);
  told.wrong = await ask({ domain: '', descriptors: [] });
  told.cancelled = await cancelled(request('cancelled'));
  told.late = (await call(service, 'ShouldRateLimit', request('late'), { deadline: Date.now() - 1 })).code;
  told.serving = (await call(health, 'Check', { service: 'ratelimit' })).status;
  told.unknown = (await call(health, 'Check', { service: 'nonsense' })).code;
  told.again = (await ask(request('b'))).overall_code;
  console.log(JSON.stringify(told));
  service.close();
  health.close();
})();
