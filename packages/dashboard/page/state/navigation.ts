import { signal } from '@preact/signals'
import { formatRoute, parseRoute, type Route } from './route.ts'

export const route = signal<Route>(parseRoute(location.hash))

export function followAddress(): void {
  addEventListener('hashchange', () => {
    route.value = parseRoute(location.hash)
  })
}

export function goTo(next: Route): void {
  location.hash = formatRoute(next)
}
