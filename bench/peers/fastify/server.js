// The peer of a plugin's route in `make bench`: one parameter in, one small JSON object out.
const app = require('fastify')();
app.get('/hello/:name', async (request) => ({ hello: request.params.name }));
app.listen({ port: Number(process.argv[2]), host: '127.0.0.1' });
