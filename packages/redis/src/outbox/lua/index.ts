// @ackord/redis/lua-outbox: an outbox in Lua scripts, and what works on one: expiry, repair, durability.

export type { EnqueueResult } from './enqueue.ts'
// Expiry
export type { DueExpiries, DueExpiry } from './expiry/due-expiry.ts'
export type { ExpiryWorker, ExpiryWorkerHealth, ExpiryWorkerOptions } from './expiry/expiry-worker.ts'
export { expiryWorker } from './expiry/expiry-worker.ts'
export type {
  CutoffOptions,
  Expiry,
  ExpiryDecision,
  ExpiryEvent,
  ExpiryRecording,
  LuaExpiry,
  LuaExpiryOptions,
  RecordExpiryOptions,
  Revocation,
  RevokeOptions,
} from './expiry/lua-expiry.ts'
export { luaExpiry } from './expiry/lua-expiry.ts'
export type { ParkedExpiries, ParkedExpiry } from './expiry/parked-expiries.ts'
export { expiryLua } from './expiry/scripts.ts'
export type { LuaBackoff, LuaOutcome } from './lua-claims.ts'
// Durability
export type {
  LuaDurability,
  LuaDurabilityCheck,
  LuaDurabilityHealth,
  LuaDurabilityOptions,
  LuaDurabilityReport,
  WaitForReplicasOptions,
} from './lua-durability.ts'
export { luaDurability, waitForReplicas } from './lua-durability.ts'
export type { LuaOutbox, LuaOutboxOptions, PreparedRecords } from './lua-outbox.ts'
export { luaOutbox } from './lua-outbox.ts'

// Repair
export type { RepairOptions, RepairReport } from './repair/repair.ts'
export { repairLuaOutbox } from './repair/repair.ts'
export type { RepairWorker, RepairWorkerHealth, RepairWorkerOptions } from './repair/repair-worker.ts'
export { repairWorker } from './repair/repair-worker.ts'
export type { RepairClass } from './repair/scripts.ts'
export type { RunnerHealth } from './round-runner.ts'
export { outboxLua } from './scripts/prelude.ts'
