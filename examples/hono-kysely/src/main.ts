import { startService } from './service.ts'

const service = await startService({
  databaseUrl: process.env['POSTGRES_URL'] ?? 'postgres://postgres@127.0.0.1:5432/postgres',
  brokerUrl: process.env['NATS_URL'] ?? 'nats://127.0.0.1:4222',
  stream: process.env['STREAM'] ?? 'shop',
  host: process.env['HOST'] ?? '127.0.0.1',
  port: Number(process.env['PORT'] ?? 3000),
})
console.log(`Listening on ${service.url}`)

const stop = () => {
  // A second signal ends the process immediately.
  process.off('SIGINT', stop).off('SIGTERM', stop)
  void service.stop()
}
process.on('SIGINT', stop).on('SIGTERM', stop)
