// @ts-check
import { spawn } from 'node:child_process'
import { once } from 'node:events'

/** @typedef {{ readonly at: number, readonly text: string }} Chunk output, and milliseconds since the start */

/**
 * Runs a shell command in a pseudo-terminal, which `script` of util-linux opens, and resolves to its output. Rejects if the command fails.
 * @param {string} command @param {{ cwd: string, columns: number }} options @returns {Promise<Chunk[]>}
 */
export async function capture(command, { cwd, columns }) {
  // Colours and progress are switched off by these variables.
  const { NO_COLOR: _, CI: __, FORCE_COLOR: ___, ...inherited } = process.env
  const child = spawn(
    'script',
    ['--quiet', '--flush', '--return', '--command', `stty cols ${columns} rows 40 && ${command}`, '/dev/null'],
    {
      cwd,
      env: { ...inherited, TERM: 'xterm-256color' },
      // Stdin stays open: its end would be sent to the command.
      stdio: ['pipe', 'pipe', 'inherit'],
    },
  )
  const startedAt = performance.now()
  /** @type {Chunk[]} */
  const chunks = []
  child.stdout.setEncoding('utf8')
  child.stdout.on('data', (text) => chunks.push({ at: performance.now() - startedAt, text }))
  const [code, signal] = await once(child, 'close')
  if (code !== 0) throw new Error(`'${command}' ended with ${code ?? signal}:\n${chunks.map(({ text }) => text).join('')}`)
  return chunks
}
