/** The programs that `npm create` and its equivalents belong to. */
export type PackageManager = 'npm' | 'pnpm' | 'yarn' | 'bun'

/** From `npm_config_user_agent`, which all of them set: `pnpm/10.2.0 npm/? node/v22.14.0 linux x64`. */
export function detectPackageManager(userAgent: string | undefined): PackageManager {
  const [name] = userAgent?.split('/') ?? []
  return name === 'pnpm' || name === 'yarn' || name === 'bun' ? name : 'npm'
}

/** The command that runs a script of package.json. */
export function runScript(manager: PackageManager, script: string): string {
  if (manager === 'bun') return `bun run ${script}`
  return manager === 'npm' && script !== 'start' && script !== 'test' ? `npm run ${script}` : `${manager} ${script}`
}
