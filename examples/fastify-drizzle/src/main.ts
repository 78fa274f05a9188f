import { buildApp } from './app.ts'

const app = await buildApp({
  databaseUrl: process.env['POSTGRES_URL'] ?? 'postgres://postgres@127.0.0.1:5432/postgres',
  brokerUrl: process.env['RABBITMQ_URL'] ?? 'amqp://guest:guest@127.0.0.1:5672',
  exchange: process.env['EXCHANGE'] ?? 'shop',
  queue: process.env['QUEUE'] ?? 'invoices',
})

for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => void app.close())

await app.listen({ host: process.env['HOST'] ?? '127.0.0.1', port: Number(process.env['PORT'] ?? 3000) })
