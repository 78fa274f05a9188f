// For authors of stores: what `createService()` of a store is made of. Services use `@ackord/sql/service` or `@ackord/redis/service`.

export type {
  RunUntilSignalOptions,
  ServiceHandleOneOptions,
  ServiceHealth,
  ServiceOptions,
  ServiceOutputs,
  ServicePorts,
  ServiceStore,
  ServiceTelemetry,
} from './service.ts'
export { Service } from './service.ts'
