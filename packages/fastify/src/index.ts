export type {
  AckordPluginOptions,
  FastifyOutbox,
  RedisPluginOptions,
  RouteOptions,
  ServicePluginOptions,
  SqlPluginOptions,
} from './ackord-plugin.ts'
export { ackord } from './ackord-plugin.ts'
