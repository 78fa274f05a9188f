import 'reflect-metadata'
import { consoleLogger } from '@ackord/core'
import { NestFactory } from '@nestjs/core'
import { AppModule } from './app.module.ts'

const settings = {
  databaseUrl: process.env['MARIADB_URL'] ?? 'mysql://root@127.0.0.1:3306/test',
  brokerUrl: process.env['RABBITMQ_URL'] ?? 'amqp://guest:guest@127.0.0.1:5672',
  queue: process.env['QUEUE'] ?? 'order-events',
  logger: consoleLogger,
}
const app = await NestFactory.create(AppModule.forRoot(settings))
// Without `useProcessExit` Nest ends itself with the signal, and the exit code looks like a crash.
app.enableShutdownHooks(['SIGINT', 'SIGTERM'], { useProcessExit: true })
await app.listen(Number(process.env['PORT'] ?? 3000), process.env['HOST'] ?? '127.0.0.1')
console.log(`Listening on ${await app.getUrl()}`)
