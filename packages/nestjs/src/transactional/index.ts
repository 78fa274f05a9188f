// Transactions shared with @nestjs-cls/transactional.

export type { ClsPluginAckordOptions } from './cls-plugin-ackord.ts'
export { ClsPluginAckord } from './cls-plugin-ackord.ts'
export type { TransactionalAdapterAckord } from './transactional-adapter-ackord.ts'
