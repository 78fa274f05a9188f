import { problemOn60 } from './redis-6-0-commands.ts'
import { type RecordedCommand, type RedisWatch, watchRedis } from './redis-recording.ts'

/**
 * For vitest's `globalSetup`: has the servers that the tests share tell what they are sent during the whole run, and fails it at the end if there was
 * anything that Redis 6.0 does not have. Servers that are not up, and those that a test starts for itself, are not recorded.
 */
export default async function recordRun(): Promise<() => Promise<void>> {
  const urls = [process.env['REDIS_URL'] ?? 'redis://127.0.0.1:6379', ...(process.env['REDIS_CLUSTER_URLS']?.split(',') ?? [])]
  const problems = new Map<string, string>()
  const check = (command: RecordedCommand) => {
    const problem = isExpected(command) ? undefined : problemOn60(command.words, command)
    if (problem === undefined) return
    const kind = `${command.words[0]}: Redis 6.0 ${problem.replaceAll(/\d+/g, '#')}`
    problems.set(kind, command.words.slice(0, 12).join(' ').slice(0, 200))
  }
  const watches: RedisWatch[] = []
  for (const url of urls) {
    try {
      watches.push(await watchRedis(url, check))
    } catch {
      // It is not up.
    }
  }

  return async () => {
    for (const watch of watches) {
      await watch.caughtUp()
      await watch[Symbol.asyncDispose]()
    }
    if (problems.size === 0) return
    const listed = Array.from(problems, ([problem, example]) => `${problem}, as in: ${example}`)
    // Vitest prints what is thrown here, and takes no notice of it otherwise.
    process.exitCode = 1
    throw new Error(`Something was sent that Redis 6.0 does not have:\n${listed.join('\n')}`)
  }
}

/** `trimStream()` looks at the server's version first, in the same script. The clock that the tests of the outbox move gives ids of its own to XADD. */
function isExpected({ words, inScript }: RecordedCommand): boolean {
  if (!inScript) return false
  return (words[0] === 'XTRIM' && words[2] === 'MINID') || (words[0] === 'XADD' && /^\d+-\*$/.test(words[2] ?? ''))
}
