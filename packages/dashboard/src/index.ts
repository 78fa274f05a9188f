export type { OnAction, OperatorAction } from './actions/action-log.ts'
export type { Identity } from './actions/identity.ts'
export type { DeadLetterPort } from './api/dead-letter-port.ts'
export type { Redact } from './api/redactor.ts'
export type {
  ActionRequest,
  ApiError,
  Chosen,
  DeadLetterSummary,
  DestinationOverview,
  DoctorCheck,
  Job,
  Overview,
  Payload,
  Preview,
  RecordDetail,
  RecordPage,
  RecordQuery,
  RecordSummary,
  ReplayRequest,
  Right,
  Session,
  StoreOverview,
} from './api/types.ts'
export type { Dashboard } from './dashboard.ts'
export { createDashboard } from './dashboard.ts'
export type { Authorize, DashboardOptions } from './dashboard-options.ts'
export { allowEverybody } from './dashboard-options.ts'
