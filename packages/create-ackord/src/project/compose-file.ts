import { type Parts, serversOf } from './parts.ts'

/** compose.yaml with the servers of the project; nothing if it needs none. */
export function composeFile(parts: Parts): Readonly<Record<string, string>> {
  const servers = Object.entries(serversOf(parts))
  if (servers.length === 0) return {}
  const services = servers.map(([name, lines]) => `  ${name}:\n${lines.replaceAll(/^/gm, '    ')}\n`)
  const head = '# For development: the ports are open to this machine only, and the passwords are no secrets.\n'
  return { 'compose.yaml': `${head}services:\n${services.join('\n')}` }
}
