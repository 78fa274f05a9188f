export type { DtoSchemaOptions } from './handlers/dto-schemas.ts'
export { dtoSchemas } from './handlers/dto-schemas.ts'
export type { HandledType, HandlerDecorator, HandlerDecoratorOptions } from './handlers/handler-decorators.ts'
export { OnCommand, OnEvent } from './handlers/handler-decorators.ts'
export type { IdempotentOptions } from './idempotency/idempotent.ts'
export { Idempotent } from './idempotency/idempotent.ts'
export type { AckordStatus, HealthIndicatorResult } from './instance/ackord-health-indicator.ts'
export { AckordHealthIndicator } from './instance/ackord-health-indicator.ts'
export type { AckordHealth } from './instance/ackord-instance.ts'
export { AckordInstance } from './instance/ackord-instance.ts'
export { nestLogger } from './instance/nest-logger.ts'
export type {
  AckordOptions,
  AckordRedisOptions,
  AckordSqlOptions,
  ConsumerOptions,
  DashboardParts,
  MountedDashboard,
} from './instance/options.ts'
export {
  getDatabaseToken,
  getHealthIndicatorToken,
  getInstanceToken,
  getOutboxToken,
  InjectAckord,
  InjectDatabase,
  InjectHealthIndicator,
  InjectOutbox,
} from './instance/tokens.ts'
export type { AckordAsyncOptions, AckordFeatureOptions, AckordModuleOptions } from './module/ackord-module.ts'
export { AckordModule } from './module/ackord-module.ts'
