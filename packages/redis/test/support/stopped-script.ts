import type { Redis as Ioredis } from 'ioredis'
import { ioredisPort } from '../../src/client/ioredis.ts'
import { type RedisPort, type Script, script } from '../../src/client/port.ts'

/** Makes the commit script throw at a step that the test chooses. */
export interface ScriptStops {
  readonly port: RedisPort
  /** The step at which it throws, from 1; 0 never throws. */
  step: number
  /** How many calls of the script throw; the others complete. */
  calls: number
  /** The number of steps of the last call that completed. */
  taken: number
  /** The keys of all scripts, and the marker of the last commit. */
  readonly keys: Set<string>
  marker: string
}

const instrumented = new Map<string, Script>()

/** A port on which the commit script counts its steps: each line that it runs, and the moments before and after each Redis command. */
export function stoppableCommits(client: Ioredis): ScriptStops {
  const plain = ioredisPort(client)
  const stops: ScriptStops = {
    step: 0,
    calls: 0,
    taken: 0,
    keys: new Set(),
    marker: '',
    port: {
      ...plain,
      async evaluate(given, keys, args, options) {
        for (const key of keys) stops.keys.add(String(key))
        if (!given.lua.includes('local rule, retention')) return await plain.evaluate(given, keys, args, options)
        let counting = instrumented.get(given.sha)
        if (counting === undefined) {
          counting = script(withSteps(given.lua))
          instrumented.set(given.sha, counting)
        }
        stops.marker = String(keys[0])
        const stopping = stops.calls > 0
        stops.calls -= 1
        const answers = (await plain.evaluate(counting, keys, [...args, String(stopping ? stops.step : 0)], options)) as string[]
        stops.taken = Number(answers.at(-1))
        return answers.slice(0, -1)
      },
    },
  }
  return stops
}

const head = `
local stepCount, stopAt = 0, tonumber(table.remove(ARGV))
local function step()
  stepCount = stepCount + 1
  if stepCount == stopAt then error('stopped at step ' .. stopAt) end
end
-- The one command that makes a failure known: Redis never refuses it after a first write, and pcall never throws.
local function isFailure(name, _, value) return name == 'SET' and string.sub(value, 1, 8) == 'partial:' end
local server = redis
local redis = { sha1hex = server.sha1hex, error_reply = server.error_reply }
function redis.call(...) step() local reply = server.call(...) step() return reply end
function redis.pcall(...)
  if isFailure(...) then return server.pcall(...) end
  step() local reply = server.pcall(...) step() return reply
end
`

const noStatement = /^\s*(?:$|--|else\b|elseif\b|end\b|\}|do$)/

function withSteps(lua: string): string {
  const lines = lua.replace(/return answers$/, 'answers[#answers + 1] = tostring(stepCount)\nreturn answers').split('\n')
  return head + lines.map((line, index) => (noStatement.test(line) || isContinued(lines[index - 1]) ? line : `step() ${line}`)).join('\n')
}

function isContinued(line: string | undefined): boolean {
  return line !== undefined && /(?:,|\{|\(|\.\.|\band|\bor)\s*$/.test(line)
}
