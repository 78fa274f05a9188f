import type { IncomingMessage } from 'node:http'
import { InvalidOptionError, type Logger, type Runtime, systemRuntime } from '@ackord/core'
import type { DeadLetterPort } from '@ackord/core/broker'
import { checkFunction, checkName, describeValue, PartPorts, rejectUnknownOptions } from '@ackord/core/internal'
import type { InboxAdmin, OutboxAdmin } from '@ackord/outbox'
import type { OnAction } from './actions/action-log.ts'
import { allRights, type Identity } from './actions/identity.ts'
import type { Redact } from './api/redactor.ts'
import type { DoctorCheck } from './api/types.ts'
import type { DashboardMetrics } from './overview/dashboard-metrics.ts'

/**
 * Who sends the request, and what they may do; `undefined` if they are unknown. `incoming`: the request of Node, with what middleware has added to it, if the dashboard is
 * mounted by `node`. Called for each request of the API. The body must not be read.
 */
export type Authorize = (request: Request, incoming: IncomingMessage | undefined) => Identity | undefined | Promise<Identity | undefined>

export interface DashboardOptions {
  /** The outboxes by the names that the page shows. */
  readonly stores: Readonly<Record<string, OutboxAdmin>>
  /** Default: none. */
  readonly inboxes?: Readonly<Record<string, InboxAdmin>> | undefined
  /** The dead letters of brokers. Default: none. */
  readonly deadLetters?: Readonly<Record<string, DeadLetterPort>> | undefined
  /** The messages that consumers of this process have handled; see `dashboardMetrics()`. Default: not shown. */
  readonly metrics?: DashboardMetrics | undefined
  /** Runs the checks of `ackord doctor`, on demand. Default: none. */
  readonly doctor?: (() => Promise<readonly DoctorCheck[]>) | undefined
  /** Required. `allowEverybody()` gives all rights to every user. */
  readonly authorize: Authorize
  /** Whether the server refuses all actions, whatever the rights of a user. Default: false. */
  readonly readOnly?: boolean | undefined
  /**
   * Called with each record before anything of it leaves the process: lists, details, groups and downloads show what it returns. A record for which it throws is shown
   * without its content. A redacted payload cannot be edited. A dead letter is passed as a parked record, with its reason as `lastError`. Names of destinations are not
   * redacted, nor is the audit. Default: records are shown as they are.
   */
  readonly redact?: Redact | undefined
  /** Called after each action, also after a failed one. Its errors are logged. Optional. */
  readonly onAction?: OnAction | undefined
  /** The address of a trace, with `{traceId}` for its id. Default: no links. */
  readonly traceUrl?: string | undefined
  /** The path that the dashboard is mounted at, such as `/ackord`. Default: the mount path of Express, otherwise the root. */
  readonly basePath?: string | undefined
  readonly logger?: Logger | undefined
  readonly runtime?: Runtime | undefined
}

/** The options after their checks. */
export interface Settings extends Omit<Required<DashboardOptions>, 'stores' | 'inboxes' | 'deadLetters'> {
  readonly stores: ReadonlyMap<string, OutboxAdmin>
  readonly inboxes: ReadonlyMap<string, InboxAdmin>
  readonly deadLetters: ReadonlyMap<string, DeadLetterPort>
  readonly readOnly: boolean
  readonly logger: Logger
  readonly runtime: Runtime
}

export function checkOptions(options: DashboardOptions): Settings {
  const {
    stores,
    inboxes = {},
    deadLetters = {},
    metrics,
    doctor,
    authorize,
    readOnly = false,
    redact,
    onAction,
    traceUrl,
    basePath,
    runtime = systemRuntime,
    logger,
    ...unknown
  } = options
  rejectUnknownOptions('A dashboard', unknown)
  if (authorize === undefined)
    throw new InvalidOptionError('authorize', 'is required. To let everybody in, with all rights, pass allowEverybody().')
  checkFunction('authorize', authorize)
  if (doctor !== undefined) checkFunction('doctor', doctor)
  if (redact !== undefined) checkFunction('redact', redact)
  if (onAction !== undefined) checkFunction('onAction', onAction)
  if (metrics !== undefined && typeof metrics.read !== 'function')
    throw new InvalidOptionError('metrics', 'must be what dashboardMetrics() returns.')
  if (typeof readOnly !== 'boolean') throw new InvalidOptionError('readOnly', 'must be true or false.')
  return {
    stores: checkNamed('stores', stores, ['list', 'get', 'rearm', 'park', 'discard', 'stats']),
    inboxes: checkNamed('inboxes', inboxes, ['find']),
    deadLetters: checkNamed('deadLetters', deadLetters, ['list', 'find', 'preview', 'replay']),
    metrics,
    doctor,
    authorize,
    readOnly,
    redact,
    onAction,
    traceUrl: traceUrl === undefined ? undefined : checkTraceUrl(traceUrl),
    basePath: basePath === undefined ? undefined : checkBasePath(basePath),
    runtime,
    logger: new PartPorts({ logger }).logger,
  }
}

/** Admits every user, with all rights: for a dashboard that only its owner can reach. */
export function allowEverybody(): Authorize {
  return () => ({ name: 'everybody', rights: allRights })
}

function checkNamed<T extends object>(
  option: string,
  named: Readonly<Record<string, T>>,
  methods: readonly string[],
): ReadonlyMap<string, T> {
  if (typeof named !== 'object' || named === null || Array.isArray(named))
    throw new InvalidOptionError(option, `must be an object of names and values; it is ${describeValue(named)}.`)
  for (const [name, value] of Object.entries(named)) {
    checkName(`a name in ${option}`, name)
    const missing = methods.filter((method) => typeof (value as Record<string, unknown> | null)?.[method] !== 'function')
    if (missing.length > 0)
      throw new InvalidOptionError(`${option}.${name}`, `must have the methods ${methods.join(', ')}; it lacks ${missing.join(', ')}.`)
  }
  return new Map(Object.entries(named))
}

/** A template that gives another kind of address could run a script in the page. */
function checkTraceUrl(traceUrl: string): string {
  const address = checkName('traceUrl', traceUrl)
  if (address.includes('{traceId}') && /^https?:\/\//i.test(address) && URL.canParse(address)) return address
  throw new InvalidOptionError('traceUrl', 'must be an http or https URL that contains {traceId}.')
}

/** Without a slash at its end. */
function checkBasePath(basePath: string): string {
  if (basePath === '' || basePath === '/') return ''
  if (typeof basePath === 'string' && /^(?:\/[\w.~-]+)+\/?$/.test(basePath)) return basePath.replace(/\/$/, '')
  throw new InvalidOptionError('basePath', "must be a path such as '/ackord', of letters, digits, dots, dashes and underscores.")
}
