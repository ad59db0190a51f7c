#include "compiler/Report/Svg.h"

#include "compiler/Report/Table.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace smelt::report {
namespace {

// A tenth of a unit is finer than anyone sees, and the same on every machine.
std::string unit(double value) { return fmt::format("{:.1f}", value); }

std::string closing(const char *tag, std::string_view tooltip) {
  return tooltip.empty() ? "/>\n" : fmt::format("><title>{}</title></{}>\n", escapeHtml(tooltip), tag);
}

} // namespace

Svg::Svg(double width, double height, std::string_view title)
    : body(fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\" style=\"max-width:{}px\">\n"
                       "<title>{}</title>\n",
                       unit(width), unit(height), unit(width), escapeHtml(title))) {}

void Svg::rect(double x, double y, double width, double height, std::string_view style_class,
               std::string_view tooltip) {
  body += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" class=\"{}\"{}", unit(x), unit(y),
                      unit(std::max(width, 0.0)), unit(std::max(height, 0.0)), style_class,
                      closing("rect", tooltip));
}

void Svg::circle(double x, double y, double radius, std::string_view style_class, std::string_view tooltip) {
  body += fmt::format("<circle cx=\"{}\" cy=\"{}\" r=\"{}\" class=\"{}\"{}", unit(x), unit(y), unit(radius),
                      style_class, closing("circle", tooltip));
}

void Svg::line(double x1, double y1, double x2, double y2, std::string_view style_class) {
  body += fmt::format("<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" class=\"{}\"/>\n", unit(x1), unit(y1),
                      unit(x2), unit(y2), style_class);
}

void Svg::polyline(const std::vector<std::pair<double, double>> &points, std::string_view style_class) {
  body += "<polyline points=\"";
  for (const auto &[x, y] : points) {
    body += unit(x) + "," + unit(y) + " ";
  }
  body += fmt::format("\" class=\"{}\"/>\n", style_class);
}

void Svg::path(std::string_view data, std::string_view style_class, std::string_view tooltip) {
  body += fmt::format("<path d=\"{}\" class=\"{}\"{}", data, style_class, closing("path", tooltip));
}

void Svg::text(double x, double y, std::string_view text, std::string_view anchor,
               std::string_view style_class) {
  body += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"{}\" class=\"{}\">{}</text>\n", unit(x), unit(y),
                      anchor, style_class, escapeHtml(text));
}

std::string Svg::str() const { return body + "</svg>\n"; }

Scale::Scale(double low, double high, double from, double to, bool logarithmic)
    : low(low), high(high > low ? high : low + 1), from(from), to(to), logarithmic(logarithmic) {}

double Scale::place(double value) const { return logarithmic ? std::log10(value) : value; }

double Scale::operator()(double value) const {
  return from + (place(value) - place(low)) / (place(high) - place(low)) * (to - from);
}

std::vector<double> Scale::ticks(int count) const {
  std::vector<double> ticks;
  if (logarithmic) {
    const bool fine = std::log10(high / low) < count / 2.0;
    for (double decade = std::pow(10, std::floor(std::log10(low))); decade <= high; decade *= 10) {
      for (const double part : {1.0, 2.0, 5.0}) {
        if ((fine || part == 1) && decade * part >= low * 0.999 && decade * part <= high * 1.001) {
          ticks.push_back(decade * part);
        }
      }
    }
    return ticks;
  }
  const double rough = (high - low) / count;
  const double decade = std::pow(10, std::floor(std::log10(rough)));
  const double part = rough / decade;
  const double step = decade * (part <= 1 ? 1 : part <= 2 ? 2 : part <= 5 ? 5 : 10);
  for (double tick = std::ceil(low / step) * step; tick <= high + step * 1e-9; tick += step) {
    ticks.push_back(tick);
  }
  return ticks;
}

} // namespace smelt::report
