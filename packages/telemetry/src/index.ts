export type { Telemetry, TelemetryOptions } from './telemetry.ts'
export { telemetry } from './telemetry.ts'
