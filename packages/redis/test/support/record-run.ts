import { problemOn60 } from './redis-6-0-commands.ts'
import { type RecordedCommand, type RedisWatch, watchRedis } from './redis-recording.ts'

/**
 * For vitest's `globalSetup`: records all commands sent to the shared servers during the run, and fails it at the end if one of them
 * does not exist in Redis 6.0. Servers that are not running, and servers that a test starts for itself, are not recorded.
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
      // The server is not running.
    }
  }

  return async () => {
    for (const watch of watches) {
      await watch.caughtUp()
      await watch[Symbol.asyncDispose]()
    }
    if (problems.size === 0) return
    const listed = Array.from(problems, ([problem, example]) => `${problem}, as in: ${example}`)
    // Vitest prints an error thrown here but does not fail the run, so the exit code is set as well.
    process.exitCode = 1
    throw new Error(`Some commands or options do not exist in Redis 6.0:\n${listed.join('\n')}`)
  }
}

/** `trimStream()` checks the server's version first, in the same script. The moved clock of the outbox tests passes explicit ids to XADD. */
function isExpected({ words, inScript }: RecordedCommand): boolean {
  if (!inScript) return false
  return (words[0] === 'XTRIM' && words[2] === 'MINID') || (words[0] === 'XADD' && /^\d+-\*$/.test(words[2] ?? ''))
}
