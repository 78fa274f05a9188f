import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { problemOn60 } from './redis-6-0-commands.ts'

export interface RecordedCommand {
  readonly words: readonly string[]
  /** Whether a script called it; MONITOR shows these commands, too. */
  readonly inScript: boolean
}

/** Records all commands that a server receives, from every client. Use a server that no other test shares. */
export interface RedisRecording extends AsyncDisposable {
  /** All commands sent before this call. */
  commands(): Promise<readonly RecordedCommand[]>
}

export interface RedisWatch extends AsyncDisposable {
  /** Resolves when all commands sent before this call have been reported. */
  caughtUp(): Promise<void>
}

export async function recordRedis(url: string): Promise<RedisRecording> {
  const recorded: RecordedCommand[] = []
  const watch = await watchRedis(url, (command) => recorded.push(command))
  return {
    async commands() {
      await watch.caughtUp()
      return [...recorded]
    },
    [Symbol.asyncDispose]: () => watch[Symbol.asyncDispose](),
  }
}

/** Reports each command that the server receives. Uses MONITOR on a separate connection. */
export async function watchRedis(url: string, onCommand: (command: RecordedCommand) => void): Promise<RedisWatch> {
  const watchers = new Set<(command: RecordedCommand) => void>()
  let socket = await open(url)
  let rest = ''
  let isOver = false

  function tell(line: string): void {
    const command = parseLine(line.endsWith('\r') ? line.slice(0, -1) : line)
    if (command === undefined) return
    if (!isMark(command.words)) onCommand(command)
    for (const watcher of watchers) watcher(command)
  }

  function listen(): void {
    rest = ''
    socket.setEncoding('latin1')
    socket.on('data', (chunk: string) => {
      // A line may have megabytes and arrive in many chunks: each chunk is searched once.
      let start = 0
      for (let end = chunk.indexOf('\n'); end >= 0; end = chunk.indexOf('\n', start)) {
        tell(rest + chunk.slice(start, end))
        rest = ''
        start = end + 1
      }
      rest += chunk.slice(start)
    })
    // Reconnects, because a test may close all connections of the server.
    socket.on('close', () => {
      if (!isOver) void listenAgain()
    })
    socket.write('MONITOR\r\n')
  }

  async function listenAgain(): Promise<void> {
    try {
      socket = await open(url)
      if (isOver) socket.destroy()
      else listen()
    } catch {
      // The server has stopped and receives no commands.
    }
  }

  listen()
  await mark(url, watchers)

  return {
    caughtUp: () => mark(url, watchers),
    async [Symbol.asyncDispose]() {
      isOver = true
      socket.destroy()
    },
  }
}

/** Describes every command that Redis 6.0 would not understand, each once. */
export function problemsOn60(commands: readonly RecordedCommand[]): string[] {
  const found = commands.flatMap(({ words, inScript }) => {
    const problem = problemOn60(words, { inScript })
    return problem === undefined ? [] : `${words.slice(0, 12).map(short).join(' ')}: Redis 6.0 ${problem}`
  })
  return [...new Set(found)]
}

/** Sends a unique command and waits until it is seen: commands sent before it have been seen, too. */
async function mark(url: string, watchers: Set<(command: RecordedCommand) => void>): Promise<void> {
  const text = `mark-${randomUUID()}`
  const seen = new Promise<void>((resolve) => {
    const watcher = ({ words }: RecordedCommand) => {
      if (words[1] !== text) return
      watchers.delete(watcher)
      resolve()
    }
    watchers.add(watcher)
  })
  const socket = await open(url)
  socket.write(`ECHO ${text}\r\n`)
  await seen
  socket.destroy()
}

function isMark(words: readonly string[]): boolean {
  return words[0] === 'ECHO' && words[1]?.startsWith('mark-') === true
}

async function open(url: string): Promise<Socket> {
  const { hostname, port } = new URL(url)
  const socket = connect(Number(port), hostname)
  await once(socket, 'connect')
  socket.on('error', () => {})
  return socket
}

// +1700000000.123456 [0 127.0.0.1:50000] "XADD" "orders" "*" "data" "\x00"; `lua` in place of the address for calls from a script.
const lineForm = /^\+\d+\.\d+ \[\d+ (\S+)\] (.*)$/s

function parseLine(line: string): RecordedCommand | undefined {
  const [, client, text] = lineForm.exec(line) ?? []
  if (client === undefined || text === undefined) return undefined
  return { words: wordsOf(text), inScript: client === 'lua' }
}

/** Parsed without a regular expression, which runs out of stack on a word of megabytes. */
function wordsOf(text: string): string[] {
  const words: string[] = []
  for (let start = text.indexOf('"'); start >= 0; ) {
    let end = start + 1
    for (end = text.indexOf('"', end); end >= 0 && isEscaped(text, end); ) end = text.indexOf('"', end + 1)
    if (end < 0) end = text.length
    words.push(unescaped(text.slice(start + 1, end)))
    start = text.indexOf('"', end + 1)
  }
  return words
}

/** Whether an odd number of backslashes precedes the character. */
function isEscaped(text: string, index: number): boolean {
  let start = index
  while (text[start - 1] === '\\') start -= 1
  return (index - start) % 2 === 1
}

/** Long data is not unescaped: no rule inspects it. */
function unescaped(word: string): string {
  if (word.length > 10_000 || !word.includes('\\')) return word
  return word.replace(/\\(x[0-9a-f]{2}|.)/gs, (_, code: string) =>
    code.length === 3
      ? String.fromCharCode(Number.parseInt(code.slice(1), 16))
      : ({ n: '\n', r: '\r', t: '\t', a: '\x07', b: '\b' }[code] ?? code),
  )
}

function short(word: string): string {
  return word.length > 40 ? `${word.slice(0, 40)}…` : word
}
