export type { DeadLetter, DeadLetterPort } from '@ackord/core/broker'
export type { OnAction, OperatorAction } from './actions/action-log.ts'
export type { Identity } from './actions/identity.ts'
export type { Redact } from './api/redactor.ts'
export type {
  ActionRequest,
  ApiError,
  BacklogPoint,
  Chosen,
  ConsumerOverview,
  DeadLetterDetail,
  DeadLetterSummary,
  DestinationOverview,
  DoctorCheck,
  Job,
  MessagesOverview,
  Overview,
  Payload,
  Preview,
  RecordDetail,
  RecordEdit,
  RecordGroup,
  RecordGroups,
  RecordPage,
  RecordQuery,
  RecordSummary,
  ReplayPreview,
  ReplayRequest,
  Right,
  Session,
  StoreOverview,
} from './api/types.ts'
export type { Dashboard } from './dashboard.ts'
export { createDashboard } from './dashboard.ts'
export type { Authorize, DashboardOptions } from './dashboard-options.ts'
export { allowEverybody } from './dashboard-options.ts'
export type { DashboardMetrics, DashboardMetricsOptions } from './overview/dashboard-metrics.ts'
export { dashboardMetrics } from './overview/dashboard-metrics.ts'
