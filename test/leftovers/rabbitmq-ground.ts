import { execFile } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { promisify } from 'node:util'
import { connect } from 'amqplib'
import { runId } from '../../scripts/test-run.mjs'
import type { Ground } from './ground.ts'

/** The queues and exchanges of the RabbitMQ at this URL. AMQP cannot list them, so this asks `rabbitmqctl`, which needs root, or the account of the server. */
export function rabbitmqGround(url: string): Ground {
  return {
    name: `RabbitMQ at ${new URL(url).host}`,
    async list() {
      const kinds = ['queue', 'exchange'] as const
      const lists = await Promise.all(kinds.map(async (kind) => (await namesOf(url, kind)).map((name) => `${kind} ${name}`)))
      return lists.flat().filter((name) => name.includes(runId))
    },
    async remove(names) {
      const connection = await connect(url)
      const channel = await connection.createChannel()
      for (const [, kind, name = ''] of names.map((each) => /^(\w+) (.*)$/s.exec(each) ?? [])) {
        if (kind === 'queue') await channel.deleteQueue(name)
        else await channel.deleteExchange(name)
      }
      await connection.close()
    },
  }
}

async function namesOf(url: string, kind: 'queue' | 'exchange'): Promise<readonly string[]> {
  const { file, args, env } = controlOf(url)
  const given = [...args, '--silent', `list_${kind}s`, 'name', '--no-table-headers']
  const { stdout } = await promisify(execFile)(file, given, { env: { ...env, LC_ALL: 'C.UTF-8' }, maxBuffer: 16 * 1024 * 1024 })
  return stdout.split('\n').filter((name) => name !== '')
}

interface Control {
  readonly file: string
  readonly args: readonly string[]
  readonly env: NodeJS.ProcessEnv
}

/**
 * The command that reaches this server. One that `scripts/services` has started has a node name, a port mapper and a cookie of its own, maybe in the root
 * directory of an unpacked system: all of them are those of its process.
 */
function controlOf(url: string): Control {
  const { port } = new URL(url)
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    const env = environmentOf(pid)
    if (env['RABBITMQ_NODE_PORT'] !== port || env['RABBITMQ_NODENAME'] === undefined) continue
    const file = '/usr/lib/rabbitmq/bin/rabbitmqctl'
    if (process.getuid?.() !== 0) return { file, args: [], env }
    return { file: 'chroot', args: [`/proc/${pid}/root`, file], env: { ...env, PATH: process.env['PATH'] } }
  }
  // The broker of the machine, which Debian's wrapper finds.
  return { file: 'rabbitmqctl', args: [], env: process.env }
}

/** Empty for a process of another account, or one that has ended. */
function environmentOf(pid: string): NodeJS.ProcessEnv {
  try {
    const lines = readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0')
    return Object.fromEntries(lines.map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]))
  } catch {
    return {}
  }
}
