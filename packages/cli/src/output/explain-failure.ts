import { isAckordError } from '@ackord/core'
import { causesOf } from '@ackord/core/internal'
import { CommandError, type ExitCode, exitCode } from './errors.ts'
import { errorText } from './output.ts'

interface Explanation {
  readonly exitCode: ExitCode
  readonly problem: string
  readonly hint?: string | undefined
}

const unreachable = (problem: string): Explanation => ({
  exitCode: exitCode.unreachable,
  problem,
  hint: 'Is the server running, and are host and port correct?',
})
const refused = (problem: string, hint: string): Explanation => ({ exitCode: exitCode.refused, problem, hint })
const wrongCredentials = refused(
  'the credentials were rejected',
  'Check user and password in the URL; special characters must be percent-encoded.',
)
const wrongDatabase = refused('the database does not exist, or access is denied', 'Check the name at the end of the URL, or create it.')
const noPrivilege = refused('a privilege is missing', '`ackord doctor` says which; grant it, or use another user.')

const readOnly = refused('the server is read-only', 'Is it a replica? Use the URL of the primary; a replica can only be read.')

/** Explanations by error code of Node, PostgreSQL (SQLSTATE), MySQL and MariaDB, and SQLite. */
const byCode: Readonly<Record<string, Explanation>> = {
  ECONNREFUSED: unreachable('connection refused'),
  ENOTFOUND: unreachable('host not found'),
  EAI_AGAIN: unreachable('the host name cannot be resolved'),
  ETIMEDOUT: unreachable('the connection timed out'),
  EHOSTUNREACH: unreachable('no route to host'),
  ENETUNREACH: unreachable('network unreachable'),
  ECONNRESET: unreachable('the server closed the connection'),
  EPIPE: unreachable('the server closed the connection'),
  PROTOCOL_CONNECTION_LOST: unreachable('the server closed the connection'),
  ACKORD_REDIS_UNANSWERED: unreachable('the server does not answer'),
  '57P03': unreachable('the server is starting up or shutting down'),
  '53300': unreachable('too many connections'),
  ER_CON_COUNT_ERROR: unreachable('too many connections'),
  '28P01': wrongCredentials,
  '28000': wrongCredentials,
  ER_ACCESS_DENIED_ERROR: wrongCredentials,
  ER_ACCESS_DENIED_NO_PASSWORD_ERROR: wrongCredentials,
  '3D000': wrongDatabase,
  ER_BAD_DB_ERROR: wrongDatabase,
  ER_DBACCESS_DENIED_ERROR: wrongDatabase,
  ER_NO_DB_ERROR: refused('the URL names no database', 'Put its name at the end: mysql://user@host:3306/name'),
  '42501': noPrivilege,
  ER_TABLEACCESS_DENIED_ERROR: noPrivilege,
  ER_SPECIFIC_ACCESS_DENIED_ERROR: noPrivilege,
  EACCES: noPrivilege,
  '25006': readOnly,
  ER_OPTION_PREVENTS_STATEMENT: readOnly,
  ERR_SQLITE_CANTOPEN: refused('the file cannot be opened', 'Check the path, and that you may read and write the file and its directory.'),
  ERR_SQLITE_NOTADB: refused('the file is not an SQLite database', 'Check the path.'),
}

/** Explanations by error text, for errors without a code: Redis, RabbitMQ, NATS, Kafka, MQTT, AWS, and the pool of `pg`. */
const byText: readonly (readonly [RegExp, Explanation])[] = [
  [/\b(WRONGPASS|NOAUTH|ERR invalid password|ERR Client sent AUTH|ERR AUTH)\b/, wrongCredentials],
  [/\bNOPERM\b/, noPrivilege],
  [/\bREADONLY\b/, readOnly],
  [/ACCESS[-_]REFUSED|authorization violation|authentication (failed|expired)|SASL/i, wrongCredentials],
  [/Couldn't connect to server/, unreachable('the server does not answer')],
  [/Connection refused: (Not authorized|Bad user ?name or password)/i, wrongCredentials],
  [
    /NOT[-_]ALLOWED|vhost .* not found|Expected ConnectionOpenOk/i,
    refused('the virtual host does not exist, or access is denied', 'Check the path of the URL.'),
  ],
  [/\bDB index\b/, wrongDatabase],
  [/\bMOVED \d+/, refused('the server is a node of a cluster', 'Use redis+cluster:// instead of redis://.')],
  [/cluster support disabled/, refused('the server is not a cluster', 'Use redis:// instead of redis+cluster://.')],
  [/\bLOADING\b/, unreachable('the server is still loading its data')],
  [
    /connection timeout|timeout exceeded when trying to connect|connect ETIMEDOUT|Connection timed? ?out/i,
    unreachable('the server does not answer'),
  ],
  [
    /security token|signature we calculated|Could not load credentials|Credential is missing/i,
    refused('the credentials are missing or were rejected', 'Check the URL, AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.'),
  ],
  [/Region is missing/, refused('the region is missing', 'Set AWS_REGION, or name it in the URL: sqs:?region=eu-central-1')],
  [/not a database/, refused('the file is not an SQLite database', 'Check the path.')],
  [/unable to open database file/, refused('the file cannot be opened', 'Check the path, and that you may read and write it.')],
  [/Connection is closed|Socket closed abruptly|Connection terminated/i, unreachable('the server closed the connection')],
]

/** Explains a failure to a user of the command. `address` is that of the server. */
export function explainFailure(error: unknown, address?: string): CommandError {
  if (error instanceof CommandError) return error
  const chain = [...causesOf(error, { aggregated: true })]
  const schema = chain.find((each) => isAckordError(each, 'ACKORD_SCHEMA'))
  if (schema !== undefined) return schemaError(schema as Error)
  if (isAckordError(error, 'ACKORD_INVALID_OPTION')) return new CommandError(error.message, { exitCode: exitCode.usage, cause: error })
  if (isAckordError(error, 'ACKORD_DELIVERY_LIMIT')) return new CommandError(error.message, { exitCode: exitCode.failed, cause: error })
  const found = explanationOf(chain)
  const where = address === undefined ? '' : ` ${address}`
  if (found === undefined) {
    const text = address === undefined ? errorText(error) : `${address} failed: ${errorText(error)}`
    return new CommandError(text, { exitCode: exitCode.failed, cause: error })
  }
  const text = `Cannot use${where === '' ? ' the server' : where}: ${found.problem} (${errorText(error)}).`
  return new CommandError(text, { exitCode: found.exitCode, hint: found.hint, cause: error })
}

/** Runs the work, and names the server in its error, unless the error is about an option. */
export async function talkingTo<T>(address: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (isAckordError(error, 'ACKORD_INVALID_OPTION')) throw error
    throw explainFailure(error, address)
  }
}

function explanationOf(chain: readonly unknown[]): Explanation | undefined {
  for (const each of chain) {
    const code = typeof each === 'object' && each !== null && 'code' in each ? byCode[String(each.code)] : undefined
    if (code !== undefined) return code
  }
  for (const each of chain) {
    const text = each instanceof Error ? each.message : String(each)
    const found = byText.find(([pattern]) => pattern.test(text))
    if (found !== undefined) return found[1]
  }
  return undefined
}

function schemaError(error: Error): CommandError {
  const problem = 'problem' in error ? error.problem : undefined
  // The library's own advice is written for programmers.
  const text = error.message.replace(/ (Run createSchema\(database\)|Update @ackord\/sql)[\s\S]*$/, '')
  const hint =
    problem === 'newer'
      ? 'Update the command: npm install ackord@latest'
      : 'Run `ackord migrate up` with the same --store, --schema and --prefix.'
  return new CommandError(text, { exitCode: exitCode.schema, hint, cause: error })
}
