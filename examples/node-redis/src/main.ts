import { startService } from './service.ts'

const service = await startService({
  redisUrl: process.env['REDIS_URL'] ?? 'redis://127.0.0.1:6379',
  tag: process.env['TAG'] ?? 'shop',
  commands: process.env['COMMANDS'] ?? 'orders',
  events: process.env['EVENTS'] ?? 'order-events',
})
console.log('Waiting for orders.')

const stop = () => {
  // A second signal ends the process immediately.
  process.off('SIGINT', stop).off('SIGTERM', stop)
  void service.stop()
}
process.on('SIGINT', stop).on('SIGTERM', stop)

await service.running
