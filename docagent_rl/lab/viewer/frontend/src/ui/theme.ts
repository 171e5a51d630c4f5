import { useEffect, useState } from "preact/hooks";

export const THEMES = ["system", "light", "dark"] as const;
export type Theme = (typeof THEMES)[number];
const KEY = "docagent-theme";

/** The chosen theme, stored by the browser if it allows that. */
export function useTheme(): [Theme, () => void] {
  const [theme, setTheme] = useState<Theme>(stored);
  useEffect(() => {
    if (theme === "system") delete document.documentElement.dataset["theme"];
    else document.documentElement.dataset["theme"] = theme;
  }, [theme]);
  const next = (): void => {
    const chosen = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length] as Theme;
    setTheme(chosen);
    try {
      window.localStorage.setItem(KEY, chosen);
    } catch {
      // a file opened from disk may not be allowed to store anything: the choice lasts as long as the page
    }
  };
  return [theme, next];
}

function stored(): Theme {
  try {
    const value = window.localStorage.getItem(KEY);
    return THEMES.find((each) => each === value) ?? "system";
  } catch {
    return "system";
  }
}
