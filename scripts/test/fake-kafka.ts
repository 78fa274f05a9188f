import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** One run of a script of the distribution. */
interface ScriptRun {
  readonly script: string
  readonly args: readonly string[]
  readonly environment: Readonly<Record<string, string>>
  /** The configuration file that it was started with, at that time. */
  readonly properties: Readonly<Record<string, string>>
}

export interface FakeKafka extends Disposable {
  readonly home: string
  /** A directory with a `java` that prints this version. */
  java(version: string): string
  runs(): readonly ScriptRun[]
}

/**
 * A directory in the form of Kafka's distribution. Its scripts record how they were called. `kafka-server-start.sh` needs formatted storage,
 * and opens the port of the first listener, with the broker at `url` behind it.
 */
export function makeFakeKafka(url: string, parent: string = tmpdir()): FakeKafka {
  const home = mkdtempSync(join(parent, 'fake-kafka-'))
  const records = join(home, 'records')
  mkdirSync(join(home, 'bin'))
  mkdirSync(records)
  // The scripts run under another account, if this process is root's.
  chmodSync(home, 0o755)
  chmodSync(records, 0o777)
  writeFileSync(join(home, 'bin/main.mjs'), program(records, url))
  for (const name of ['kafka-storage.sh', 'kafka-server-start.sh']) {
    writeExecutable(join(home, 'bin', name), `#!/bin/sh\nexec '${process.execPath}' '${home}/bin/main.mjs' ${name} "$@"\n`)
  }
  return {
    home,
    java(version) {
      const directory = mkdtempSync(join(home, 'java-'))
      chmodSync(directory, 0o755)
      mkdirSync(join(directory, 'bin'))
      writeExecutable(join(directory, 'bin/java'), `#!/bin/sh\necho 'openjdk version "${version}" 2025-04-15' >&2\n`)
      return directory
    },
    runs: () => (existsSync(join(records, 'runs')) ? readFileSync(join(records, 'runs'), 'utf8').trim().split('\n').map(parseRun) : []),
    [Symbol.dispose]: () => rmSync(home, { recursive: true, force: true }),
  }
}

function parseRun(line: string): ScriptRun {
  return JSON.parse(line) as ScriptRun
}

function writeExecutable(file: string, text: string): void {
  writeFileSync(file, text)
  chmodSync(file, 0o755)
}

function program(records: string, url: string): string {
  const { hostname, port } = new URL(url)
  return `import { appendFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { join } from 'node:path'

const [script, ...args] = process.argv.slice(2)
const file = script === 'kafka-storage.sh' ? args[args.indexOf('--config') + 1] : args[0]
const properties = Object.fromEntries(readFileSync(file, 'utf8').trim().split('\\n').map((line) => line.split(/=(.*)/s)))
appendFileSync('${records}/runs', JSON.stringify({ script, args, environment: process.env, properties }) + '\\n')
const formatted = join(properties['log.dirs'], 'meta.properties')
if (script === 'kafka-storage.sh') {
  mkdirSync(properties['log.dirs'])
  writeFileSync(formatted, 'cluster.id=' + args[args.indexOf('--cluster-id') + 1])
} else if (!existsSync(formatted)) {
  console.error('No readable meta.properties files found.')
  process.exit(1)
} else {
  for (const listener of properties.listeners.split(',').filter((each) => !each.startsWith('CONTROLLER'))) {
    const server = createServer((client) => {
      const broker = connect(${port}, '${hostname}')
      client.pipe(broker).pipe(client)
      client.on('error', () => broker.destroy())
      broker.on('error', () => client.destroy())
    })
    server.listen(Number(listener.split(':').at(-1)), '127.0.0.1')
  }
  process.on('SIGTERM', () => process.exit(143))
}
`
}
