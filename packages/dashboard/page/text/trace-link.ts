/** The address of a trace; `undefined` if the template does not give an http or https address. */
export function traceLink(template: string | undefined, traceId: string | undefined): string | undefined {
  if (template === undefined || traceId === undefined) return undefined
  const address = template.replaceAll('{traceId}', () => encodeURIComponent(traceId))
  const protocol = URL.canParse(address) ? new URL(address).protocol : undefined
  return protocol === 'https:' || protocol === 'http:' ? address : undefined
}
