import { isAckordError, silentLogger } from '@ackord/core'
import { explainFailure } from '../output/explain-failure.ts'
import { counted } from '../output/text.ts'
import { formatDuration } from '../settings/duration.ts'
import type { OutboxChoices, SqlStore, Store } from '../stores/store.ts'
import { type Check, check, runPrivilegeCheck } from './check.ts'
import { mysqlChecks } from './mysql-checks.ts'
import { mysqlPrivileges } from './mysql-privileges.ts'
import { postgresChecks } from './postgres-checks.ts'
import { postgresLog } from './postgres-log.ts'
import { postgresPrivileges } from './postgres-privileges.ts'
import { redisChecks } from './redis-checks.ts'
import { sqliteChecks } from './sqlite-checks.ts'

/** Above this age an operator should look, whatever delay the consumers tolerate. */
const longLag = 300_000

export interface StoreFindings {
  readonly checks: readonly Check[]
  /** The destinations that have records. */
  readonly destinations: readonly string[]
}

/** As in the writing services. Order per key and the log mode need more privileges. */
type StorageChoices = Pick<OutboxChoices, 'order' | 'mode'>

interface SchemaFinding {
  readonly finding: Check
  /** Whether there are tables to check, as far as the user can see. */
  readonly isUsable: boolean
}

/** Without a mode, the one that has been used is checked. */
export async function checkStore(store: Store, { order, mode }: StorageChoices = {}): Promise<StoreFindings> {
  if (store.kind === 'redis') return await withBacklog(store, await redisChecks(store))
  const checks = await serverChecks(store)
  const schema = await schemaCheck(store)
  if (!schema.isUsable) return { checks: [...checks, schema.finding], destinations: [] }
  const choices = { order, mode: mode ?? (store.usesLog() ? 'log' : 'table') }
  const log = choices.mode === 'log' ? [await postgresLog(store)] : []
  return await withBacklog(store, [...checks, schema.finding, ...(await privilegeChecks(store, choices)), ...log], choices.mode)
}

async function serverChecks(store: SqlStore): Promise<readonly Check[]> {
  if (store.kind === 'mysql') return await mysqlChecks(store)
  return store.kind === 'sqlite' ? await sqliteChecks(store) : await postgresChecks(store)
}

async function privilegeChecks(store: SqlStore, choices: StorageChoices): Promise<readonly Check[]> {
  if (store.kind === 'mysql') return [await mysqlPrivileges(store, choices.order ?? 'none')]
  return store.kind === 'sqlite' ? [] : [await postgresPrivileges(store, choices)]
}

async function schemaCheck(store: SqlStore): Promise<SchemaFinding> {
  let isUsable = true
  const finding = await runPrivilegeCheck('schema', async () => {
    try {
      await store.validateSchema()
      return check('schema', 'ok', 'The tables exist, in a version that this command supports.')
    } catch (error) {
      if (!isAckordError(error, 'ACKORD_SCHEMA')) throw error
      isUsable = false
      const { message, hint } = explainFailure(error)
      return check('schema', 'problem', `${message} ${hint ?? ''}`.trim())
    }
  })
  return { finding, isUsable }
}

async function withBacklog(store: Store, checks: readonly Check[], mode?: OutboxChoices['mode']): Promise<StoreFindings> {
  let destinations: readonly string[] = []
  const backlog = await runPrivilegeCheck('backlog', async () => {
    const stats = await store.outbox({ mode, logger: silentLogger }).stats()
    destinations = stats.destinations.map(({ destination }) => destination)
    const parked = stats.destinations.reduce((sum, counts) => sum + counts.parked, 0)
    const findings = [
      parked > 0 ? `${counted(parked, 'record is', 'records are')} parked: \`ackord list --state parked\`.` : undefined,
      (stats.oldestAge ?? 0) > longLag
        ? `The oldest record has been pending for ${formatDuration(stats.oldestAge ?? 0)}: is a relay running for every destination?`
        : undefined,
    ].filter((finding) => finding !== undefined)
    return findings.length === 0
      ? check('backlog', 'ok', 'No record is parked, and none has been pending for long.')
      : check('backlog', 'warning', findings.join(' '))
  })
  return { checks: [...checks, backlog], destinations }
}
